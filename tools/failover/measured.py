"""How long nothing was delivered or accepted, from the journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path

from tools.torture import journal


@dataclass(frozen=True)
class Outage:
    fault: str
    # The longest time without a delivery and without an accepted event, in seconds.
    delivery: float
    ingest: float
    # Requests that an endpoint got again.
    duplicates: int
    # From the end of the fault until the next delivery and the next accepted event: the hub's own part.
    delivery_after: float
    ingest_after: float

    def __str__(self) -> str:
        after = f"{self.delivery_after:.1f} and {self.ingest_after:.1f} of these after its end"
        return f"| {self.fault} | {self.delivery:.1f} | {self.ingest:.1f} | {self.duplicates} | {after}"


def outage(folder: Path, fault: str, started_at: float, mended_at: float, ended_at: float) -> Outage:
    """What the journals say about the time from a fault to the end of its effects."""
    received = [entry for entry in journal.read(folder / "received.jsonl") if entry["type"] == "received"]
    times = [entry["at"] for entry in received]
    accepted = [
        entry["at"]
        for path in folder.glob("producer-*.jsonl")
        for entry in journal.read(path)
        if entry["type"] == "acknowledged"
    ]
    seen = Counter((entry["uid"], entry["path"], entry["attempt"]) for entry in received if entry["at"] <= ended_at)
    before = Counter((entry["uid"], entry["path"], entry["attempt"]) for entry in received if entry["at"] < started_at)
    repeated = sum(seen.values()) - len(seen) - (sum(before.values()) - len(before))
    return Outage(
        fault,
        longest_gap(times, started_at, ended_at),
        longest_gap(accepted, started_at, ended_at),
        repeated,
        until_next(times, mended_at),
        until_next(accepted, mended_at),
    )


def until_next(times: Iterable[float], since: float) -> float:
    return min((at - since for at in times if at > since), default=inf)


def longest_gap(times: Iterable[float], started_at: float, ended_at: float) -> float:
    """The longest time between two of `times` that touches the period."""
    inside = [at for at in sorted(times) if at <= ended_at]
    before = [at for at in inside if at <= started_at][-1:] or [started_at]
    during = [at for at in inside if at > started_at]
    ends = [*before, *during, ended_at]
    return max((later - earlier for earlier, later in pairwise(ends)), default=0.0)
