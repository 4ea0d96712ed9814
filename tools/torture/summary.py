"""The stats and verdicts of a run, as a dict and as text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .claims import Verdict
from .claims.attempts import count_duplicates, sagas_with_paths
from .claims.faults import max_resets
from .claims.responses import STEADY
from .config import EVERY_LOOP, WEB, Config, plural
from .observations import Observations
from .prepare import WEB_SOURCE

MAX_SHOWN = 10


def numbers(config: Config, observed: Observations, measured: dict[str, Any]) -> dict[str, Any]:
    types = Counter(fault["type"] for fault in observed.faults)
    kills = Counter(fault["kind"] for fault in observed.faults if fault["type"] == "killed")
    cuts = Counter(fault["kind"] for fault in observed.faults if fault["type"] == "disconnected")
    stops = Counter(fault["kind"] for fault in observed.faults if fault["type"] == "stopped")
    statuses = Counter(saga.status for saga in observed.sagas)
    steady = [saga.status for saga, _, path in sagas_with_paths(observed) if path == STEADY]
    counts = observed.logs.counts
    return {
        **{name: value for name, value in config.as_dict().items() if name in ("seconds", "seed")},
        **measured,
        "events acknowledged": len(observed.acknowledged),
        "events stored": len(observed.events),
        "events rolled back": len(observed.rolled_back),
        "events acknowledged by HTTP": sum(source == WEB_SOURCE for source, _ in observed.acknowledged),
        "deliveries": len(observed.sagas),
        "completed": statuses["Completed"],
        "dead-lettered": statuses["DeadLettered"],
        "deliveries to /steady": len(steady),
        "completed of these": steady.count("Completed"),
        "workflows": len(observed.workflows),
        "completed workflows": sum(workflow.status == "COMPLETED" for workflow in observed.workflows),
        "attempts": len(observed.jobs),
        "requests received": len(observed.receipts),
        "loops started": counts["process_started"],
        "loops killed": sum(kills[kind] for kind in EVERY_LOOP),
        **{f"{plural(kind)} killed": kills[kind] for kind in EVERY_LOOP},
        "web servers killed": kills[WEB],
        "producers killed": kills["producer"],
        "loops paused longer than a lease": types["stopped"],
        "workers of these": stops["worker"],
        "connections killed": types["disconnected"],
        "connections of workers of these": cuts["worker"],
        "database kills": types["database killed"],
        "leases reset": sum(job.lease_resets for job in observed.jobs),
        "lease resets explained by faults, at most": max_resets(observed),
        "duplicates received": count_duplicates(observed),
        "results dropped after a lost lease": counts["lease_lost"],
        "lost connections noticed": counts["database_lost"],
        "conflicts retried": counts["database_conflict"],
    }


def text(stats: dict[str, Any], verdicts: list[Verdict]) -> str:
    width = max(map(len, stats))
    lines = [f"  {name:<{width}}  {value}" for name, value in stats.items()]
    lines.append("")
    for verdict in verdicts:
        lines.append(f"  {'holds ' if not verdict.violations else 'FAILED'}  {verdict.claim}")
        lines += [f"             {violation}" for violation in verdict.violations[:MAX_SHOWN]]
        if len(verdict.violations) > MAX_SHOWN:
            lines.append(f"             and {len(verdict.violations) - MAX_SHOWN} more")
    return "\n".join(lines)
