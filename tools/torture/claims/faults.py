"""When which process was kept from its work, and when there was no database: what the tormentor has written down."""

from __future__ import annotations

from collections import defaultdict
from math import inf

from .evidence import Evidence
from .plan import CONCURRENCY, LOOPS

# A fault is written down after it was done, by a machine that is busy.
SLACK_SECONDS = 1.0
Span = tuple[float, float]


def outages_of(evidence: Evidence) -> list[Span]:
    began = [fault["at"] for fault in evidence.faults if fault["say"] == "database killed"]
    ended = [fault["at"] for fault in evidence.faults if fault["say"] == "database back"]
    return list(zip(began, ended, strict=True))


def stops_of(evidence: Evidence) -> dict[int, list[Span]]:
    """By process: from when until when it was stopped."""
    stops: dict[int, list[Span]] = defaultdict(list)
    for fault in sorted(evidence.faults, key=lambda fault: float(fault["at"])):
        if fault["say"] == "stopped":
            stops[fault["pid"]].append((fault["at"], inf))
        elif fault["say"] == "woken" and stops[fault["pid"]]:
            stops[fault["pid"]][-1] = stops[fault["pid"]][-1][0], fault["at"]
    return stops


def hits_of(evidence: Evidence) -> dict[int, list[Span]]:
    """By process: the moments in which it was killed or cut off, and the times in which it was stopped."""
    hits = stops_of(evidence)
    for fault in evidence.faults:
        if fault["say"] in ("killed", "cut"):
            hits[fault["pid"]].append((fault["at"], fault["at"]))
    return hits


def meets(span: Span, others: list[Span]) -> bool:
    return any(began <= span[1] + SLACK_SECONDS and ended >= span[0] - SLACK_SECONDS for began, ended in others)


def most_unsaid(evidence: Evidence) -> int:
    """A cleaner may be ended between what it has written and its word of it."""
    of_cleaners = sum(fault.get("kind") == "cleaner" and fault["say"] != "woken" for fault in evidence.faults)
    return CONCURRENCY * LOOPS["worker"] * (int(of_cleaners) + len(outages_of(evidence)))


def most_resets(evidence: Evidence) -> int:
    """A worker holds so many leases at most, and loses them all at a fault of its own or of the database."""
    of_workers = sum(fault.get("kind") == "worker" and fault["say"] != "woken" for fault in evidence.faults)
    return CONCURRENCY * (int(of_workers) + LOOPS["worker"] * len(outages_of(evidence)))
