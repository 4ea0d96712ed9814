"""`python -m tools.reference_tables` rewrites the tables in docs/ that are generated from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import django

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def error_codes() -> str:
    from webhookhub.egress.error_codes import MEANING

    return _table("code", "meaning", rows=[("http_NNN", "the endpoint responded with status NNN"), *MEANING.items()])


def checks() -> str:
    from webhookhub.integrity.checks import ALL

    rows = [(check.name, check.invariant + (" (warning)" if check.is_warning else "")) for check in ALL]
    return _table("check", "what must hold", rows=rows)


def metrics() -> str:
    from webhookhub.stats.catalogue import ALL

    rows = [
        (metric.name, metric.kind, ", ".join(f"`{name}`" for name in metric.labels) or "–", metric.help)
        for metric in ALL
    ]
    return _table("metric", "kind", "labels", "meaning", rows=rows)


def roles() -> str:
    from webhookhub.db.roles import ROLES, SUBSCRIPTION_COLUMNS

    lines = ["| role | table | may |", "|---|---|---|"]
    for role in ROLES:
        lines.append(f"| **`{role.name}`** | | {role.purpose} |")
        for table, privileges in role.tables.items():
            if privileges == SUBSCRIPTION_COLUMNS:
                text = "SELECT (all but the secrets and the custom headers)"
            else:
                text = re.sub(r"\b[a-z_]+\b", r"`\g<0>`", privileges)
            lines.append(f"| | `{table}` | {text} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "error codes": error_codes,
    "checks": checks,
    "metrics": metrics,
    "roles": roles,
}


def _table(*titles: str, rows: Sequence[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *((f"`{name}`", *others) for name, *others in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- |", "|---|").replace(" --- |", "---|")


def rewrite(text: str) -> str:
    """The page with its generated tables as the code has them now."""
    return BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


if __name__ == "__main__":
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    django.setup()
    for page in DOCS.glob("*.md"):
        page.write_text(rewrite(page.read_text()))
