"""`python -m tools.reference_tables` rewrites the tables in docs/ that are generated from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
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


def alert_rules() -> str:
    import yaml

    [group] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())["groups"]
    rows = []
    for rule in group["rules"]:
        meaning = re.sub(r"\{\{ \$(?:labels\.(\w+)|value).*?\}\}", lambda name: f"*{name[1] or 'N'}*", _summary(rule))
        rows.append((rule["alert"], rule["labels"]["severity"], rule.get("for", "–"), meaning))
    return _table("alert", "severity", "for", "meaning", rows=rows)


def _summary(rule: dict[str, Any]) -> str:
    return str(rule["annotations"]["summary"])


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


def retry_schedule() -> str:
    from sagas.policy import SPREAD, SPREAD_UNIT, RetryPolicy, delay
    from webhookhub.conf import HubSettings

    defaults = HubSettings()
    policy = RetryPolicy(defaults.max_retry_limit, defaults.base_delay)
    since, share = timedelta(), SPREAD / SPREAD_UNIT
    lines = ["| attempt | delay | since the first attempt | earliest | latest |", "|---|---|---|---|---|"]
    for attempt in range(1, policy.max_retry_limit + 1):
        pause = delay(attempt - 1, policy, defaults.max_delay) if attempt > 1 else timedelta()
        since += pause
        times = [_duration(time) for time in (pause, since, since * (1 - share), since * (1 + share))]
        lines.append(f"| {attempt} | {' | '.join(times)} |")
    return "\n".join(lines)


def _duration(time: timedelta) -> str:
    """The two largest units, such as 3 d 8 h."""
    seconds = round(time.total_seconds())
    units = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    first = next((place for place, (count, _) in enumerate(units) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2] if count) or "0 s"


TABLES: dict[str, Callable[[], str]] = {
    "error codes": error_codes,
    "checks": checks,
    "metrics": metrics,
    "alert rules": alert_rules,
    "roles": roles,
    "retry schedule": retry_schedule,
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
