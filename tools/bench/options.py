"""How much is measured: the sizes of a full run, which takes less than ten minutes, and of a quick look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Sizes:
    """Numbers of deliveries, unless they say something else."""

    repeats: int = 3
    drain: int = 20_000
    variants: bool = True
    celery: int = 2_000
    celery_settings: tuple[tuple[str, int], ...] = (("prefork", 2), ("prefork", 4), ("prefork", 8), ("threads", 16))
    rates: tuple[int, ...] = (50, 200, 500)  # events per second
    latency_seconds: float = 10.0
    backlogs: tuple[int, ...] = (10_000, 100_000, 1_000_000)  # sagas
    backlog: int = 5_000
    scale: int = 10_000
    embedded: int = 3_000
    idle_seconds: float = 20.0
    in_flight: int = 500


FULL = Sizes()
QUICK = replace(
    FULL,
    repeats=1,
    drain=1_000,
    variants=False,
    celery=500,
    celery_settings=(("prefork", 4),),
    rates=(50,),
    latency_seconds=3.0,
    backlogs=(1_000, 10_000),
    backlog=500,
    scale=1_000,
    embedded=500,
    idle_seconds=5.0,
)


@dataclass(frozen=True)
class Options:
    sizes: Sizes = FULL
    mysqld: str | None = None
    profile: Path | None = None
