"""When processes were stopped, killed or disconnected, and when the database was down, from the injector's journal."""

from __future__ import annotations

from collections import defaultdict
from math import inf

from tools.torture.config import CONCURRENCY, HUB, LOOPS
from tools.torture.observations import Observations

# A fault is recorded after it was injected, by a busy machine.
SLACK_SECONDS = 1.0
Span = tuple[float, float]


def outages_of(observed: Observations) -> list[Span]:
    started = [fault["at"] for fault in observed.faults if fault["type"] == "database killed"]
    ended = [fault["at"] for fault in observed.faults if fault["type"] == "database restored"]
    return list(zip(started, ended, strict=True))


def stops_of(observed: Observations) -> dict[int, list[Span]]:
    """The times during which each process was stopped, by pid."""
    stops: dict[int, list[Span]] = defaultdict(list)
    for fault in sorted(observed.faults, key=lambda fault: float(fault["at"])):
        if fault["type"] == "stopped":
            stops[fault["pid"]].append((fault["at"], inf))
        elif fault["type"] == "resumed" and stops[fault["pid"]]:
            stops[fault["pid"]][-1] = stops[fault["pid"]][-1][0], fault["at"]
    return stops


def faults_by_pid(observed: Observations) -> dict[int, list[Span]]:
    """The times at which each process was killed or disconnected, and those during which it was stopped."""
    spans = stops_of(observed)
    for fault in observed.faults:
        if fault["type"] in ("killed", "disconnected"):
            spans[fault["pid"]].append((fault["at"], fault["at"]))
    return spans


def overlaps(span: Span, others: list[Span]) -> bool:
    return any(start <= span[1] + SLACK_SECONDS and end >= span[0] - SLACK_SECONDS for start, end in others)


def max_unlogged_resets(observed: Observations) -> int:
    """Resets that may be missing from the logs: a cleaner may be killed after its write and before its log entry."""
    return CONCURRENCY * LOOPS["worker"] * (_faults_of(observed, "cleaner") + len(outages_of(observed)))


def max_resets(observed: Observations) -> int:
    """A worker loses all its leases at a fault of its own or of the database."""
    return CONCURRENCY * (_faults_of(observed, "worker") + LOOPS["worker"] * len(outages_of(observed)))


def _faults_of(observed: Observations, kind: str) -> int:
    return sum(fault.get("kind") in (kind, HUB) and fault["type"] != "resumed" for fault in observed.faults)
