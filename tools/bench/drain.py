"""The hub's own rate: events already published, all loops as processes, until the last delivery has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.bench import hub, load, usage
from tools.bench.database import Server
from tools.bench.ground import Ground


@dataclass(frozen=True)
class DrainRun:
    """Deliveries per second, and microseconds of CPU of one delivery by kind of process."""

    rate: float
    cpu: dict[str, float]
    duplicates: int


def run(
    ground: Ground,
    deliveries: int,
    *,
    width: int = 1,
    counts: Mapping[str, int] | None = None,
    **environment: str,
) -> DrainRun:
    """On an empty database, with processes of its own."""
    database = ground.database()
    database.empty()
    with hub.running(ground, database, counts, **environment) as loops:
        return measure(ground, database, loops, deliveries, width)


def measure(ground: Ground, database: Server, loops: hub.Hub, deliveries: int, width: int = 1) -> DrainRun:
    kinds = loops.pids() | {"database": [ground.server.pid], "receiver": [ground.echo.pid]}
    before = {kind: usage.cpu_of(pids) for kind, pids in kinds.items()}
    seconds = loops.deliver(deliveries, width)
    cpu = {kind: (usage.cpu_of(pids) - before[kind]) / deliveries * 1e6 for kind, pids in kinds.items()}
    arrivals = ground.echo.take()
    assert len(arrivals) >= deliveries, f"{len(arrivals)} of {deliveries} deliveries arrived"
    return DrainRun(deliveries / seconds, cpu, load.duplicates(arrivals))
