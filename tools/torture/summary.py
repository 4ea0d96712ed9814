"""What a run was and what came of it, for people and for machines."""

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
        "deliveries to the steady path": len(steady),
        "completed among them": steady.count("Completed"),
        "workflows": len(evidence.workflows),
        "completed workflows": sum(workflow.status == "COMPLETED" for workflow in evidence.workflows),
        "attempts": len(evidence.jobs),
        "requests received": len(evidence.receipts),
        "loops started, to the point of working": counts["process_started"],
        "loops killed": sum(kills[kind] for kind in LOOPS),
        **{f"{plural(kind)} killed": kills[kind] for kind in LOOPS},
        "web servers killed": kills[WEB],
        "producers killed": kills["producer"],
        "loops stopped beyond a lease": says["stopped"],
        "workers among them": stops["worker"],
        "connections killed": says["cut"],
        "workers' among them": cuts["worker"],
        "database kills": says["database killed"],
        "leases reset": sum(job.lease_resets for job in evidence.jobs),
        "leases reset, most explained": most_resets(evidence),
        "duplicates received": duplicates(evidence),
        "zombies' results dropped": counts["lease_lost"],
        "lost databases noticed": counts["database_lost"],
        "conflicts repeated": counts["database_conflict"],
    }


def text(figures: dict[str, Any], verdicts: list[Verdict]) -> str:
    width = max(map(len, figures))
    lines = [f"  {name:<{width}}  {value}" for name, value in figures.items()]
    lines.append("")
    for verdict in verdicts:
        lines.append(f"  {'holds  ' if not verdict.found else 'REFUTED'}  {verdict.claim}")
        lines += [f"             {found}" for found in verdict.found[:SHOWN]]
        if len(verdict.found) > SHOWN:
            lines.append(f"             and {len(verdict.found) - SHOWN} more")
    return "\n".join(lines)
