"""The hub's own rate: events already published, all loops as processes, until the last delivery has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.bench import hub, load, usage
from tools.bench.context import Context
from tools.bench.database import Server


@dataclass(frozen=True)
class DrainRun:
    """Deliveries per second, and microseconds of CPU of one delivery by kind of process."""

    rate: float
    cpu: dict[str, float]
    duplicates: int


def run(
    context: Context,
    deliveries: int,
    *,
    width: int = 1,
    counts: Mapping[str, int] | None = None,
    **environment: str,
) -> DrainRun:
    """On an empty database, with processes of its own."""
    database = context.database()
    database.empty()
    with hub.running(context, database, counts, **environment) as loops:
        return measure(context, database, loops, deliveries, width)


def measure(context: Context, database: Server, loops: hub.Hub, deliveries: int, width: int = 1) -> DrainRun:
    kinds = loops.pids() | {"database": [context.server.pid], "receiver": [context.echo.pid]}
    before = {kind: usage.cpu_of(pids) for kind, pids in kinds.items()}
    seconds = loops.deliver(deliveries, width)
    cpu = {kind: (usage.cpu_of(pids) - before[kind]) / deliveries * 1e6 for kind, pids in kinds.items()}
    arrivals = context.echo.take()
    assert len(arrivals) >= deliveries, f"{len(arrivals)} of {deliveries} deliveries arrived"
    return DrainRun(deliveries / seconds, cpu, load.duplicates(arrivals))
