"""The stats and verdicts of a run, as a dict and as text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .deliveries import addressed
from .evidence import Evidence
from .faults import most_resets
from .judge import Verdict, duplicates
from .outcomes import STEADY
from .plan import LOOPS, WEB, Plan, plural
from .stage import WEB_SOURCE

SHOWN = 10


def numbers(plan: Plan, evidence: Evidence, measured: dict[str, Any]) -> dict[str, Any]:
    says = Counter(fault["say"] for fault in evidence.faults)
    kills = Counter(fault["kind"] for fault in evidence.faults if fault["say"] == "killed")
    cuts = Counter(fault["kind"] for fault in evidence.faults if fault["say"] == "cut")
    stops = Counter(fault["kind"] for fault in evidence.faults if fault["say"] == "stopped")
    statuses = Counter(saga.status for saga in evidence.sagas)
    steady = [saga.status for saga, _, path in addressed(evidence) if path == STEADY]
    counts = evidence.said.counts
    return {
        **{name: value for name, value in plan.as_dict().items() if name in ("seconds", "seed")},
        **measured,
        "events acknowledged": len(evidence.acknowledged),
        "events stored": len(evidence.events),
        "events rolled back": len(evidence.rolled_back),
        "events acknowledged by HTTP": sum(source == WEB_SOURCE for source, _ in evidence.acknowledged),
        "deliveries": len(evidence.sagas),
        "completed": statuses["Completed"],
        "dead-lettered": statuses["DeadLettered"],
        "deliveries to /steady": len(steady),
        "completed of these": steady.count("Completed"),
        "workflows": len(evidence.workflows),
        "completed workflows": sum(workflow.status == "COMPLETED" for workflow in evidence.workflows),
        "attempts": len(evidence.jobs),
        "requests received": len(evidence.receipts),
        "loops started": counts["process_started"],
        "loops killed": sum(kills[kind] for kind in LOOPS),
        **{f"{plural(kind)} killed": kills[kind] for kind in LOOPS},
        "web servers killed": kills[WEB],
        "producers killed": kills["producer"],
        "loops paused longer than a lease": says["stopped"],
        "workers of these": stops["worker"],
        "connections killed": says["cut"],
        "connections of workers of these": cuts["worker"],
        "database kills": says["database killed"],
        "leases reset": sum(job.lease_resets for job in evidence.jobs),
        "lease resets explained by faults, at most": most_resets(evidence),
        "duplicates received": duplicates(evidence),
        "results dropped after a lost lease": counts["lease_lost"],
        "lost connections noticed": counts["database_lost"],
        "conflicts retried": counts["database_conflict"],
    }


def text(stats: dict[str, Any], verdicts: list[Verdict]) -> str:
    width = max(map(len, stats))
    lines = [f"  {name:<{width}}  {value}" for name, value in stats.items()]
    lines.append("")
    for verdict in verdicts:
        lines.append(f"  {'holds ' if not verdict.found else 'FAILED'}  {verdict.claim}")
        lines += [f"             {found}" for found in verdict.found[:SHOWN]]
        if len(verdict.found) > SHOWN:
            lines.append(f"             and {len(verdict.found) - SHOWN} more")
    return "\n".join(lines)
