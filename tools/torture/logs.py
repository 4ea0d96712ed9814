"""What the processes under torture have said: tracebacks, facts of interest, and whose leases were reset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

COUNTED = (
    "process_started",
    "lease_lost",
    "database_lost",
    "database_conflict",
    "saga_dead_lettered",
    "process_expired",
)
TRACEBACK_LINES = 40


@dataclass(frozen=True)
class Reset:
    """A lease that a cleaner found expired, and whose it was."""

    job_id: int
    pid: int
    until: float
    at: float  # when the cleaner says so


@dataclass
class Said:
    tracebacks: list[str] = field(default_factory=list)
    resets: set[Reset] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)


def read(paths: Iterable[Path]) -> Said:
    said = Said()
    for path in sorted(paths):
        lines = path.read_text(errors="replace").split("\n")
        said.tracebacks += [f"{path.name}: {text}" for text in tracebacks(lines)]
        for line in lines:
            for fact in COUNTED:
                said.counts[fact] += f'"event": "{fact}"' in line
            if '"event": "job_lease_reset"' in line and line.endswith("}"):
                said.resets.add(_reset(line))
    return said


def tracebacks(lines: list[str]) -> Iterator[str]:
    """In the log's own lines, which hold them in a field, and bare ones. A lost database is said without any."""
    for number, line in enumerate(lines):
        if '"event": "process_failed"' in line or "Traceback (most recent call last)" in line:
            yield "\n".join(lines[number : number + TRACEBACK_LINES])[:4000].replace("\\n", "\n")
            return


def _reset(line: str) -> Reset:
    fact = json.loads(line)
    until = datetime.fromisoformat(fact["lease_expiration"]).timestamp()
    at = datetime.fromisoformat(fact["timestamp"]).timestamp()
    return Reset(fact["job_id"], pid_of(fact["worker_id"]), until, at)


def pid_of(worker_id: str) -> int:
    return int(worker_id.split(":")[1])
