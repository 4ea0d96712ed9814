"""The declaration as a table for people: `python -m webhookhub.db.roles_table` prints what docs/roles.md shows."""

from __future__ import annotations

import re

from .roles import ROLES, SUBSCRIPTION_FACTS


def markdown() -> str:
    lines = ["| role | table | may |", "|---|---|---|"]
    for role in ROLES:
        lines.append(f"| **`{role.name}`** | | {role.purpose} |")
        lines += [f"| | `{table}` | {_readable(may)} |" for table, may in role.tables.items()]
    return "\n".join(lines)


def _readable(may: str) -> str:
    if may == SUBSCRIPTION_FACTS:
        return "SELECT (all but the secrets and the custom headers)"
    return re.sub(r"\b[a-z_]+\b", r"`\g<0>`", may)


if __name__ == "__main__":
    print(markdown())  # noqa: T201
