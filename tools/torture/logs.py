"""Reads the logs of the processes: tracebacks, counts of some log events, and lease resets."""

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
    """A cleaner's log entry about an expired lease."""

    job_id: int
    pid: int  # of the worker that held the lease
    until: float
    at: float  # time of the log entry


@dataclass
class LogContents:
    tracebacks: list[str] = field(default_factory=list)
    resets: set[Reset] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)


def read(paths: Iterable[Path]) -> LogContents:
    contents = LogContents()
    for path in sorted(paths):
        lines = path.read_text(errors="replace").split("\n")
        contents.tracebacks += [f"{path.name}: {text}" for text in tracebacks(lines)]
        for line in lines:
            for name in COUNTED:
                contents.counts[name] += f'"event": "{name}"' in line
            if '"event": "job_lease_reset"' in line and line.endswith("}"):
                contents.resets.add(_reset(line))
    return contents


def tracebacks(lines: list[str]) -> Iterator[str]:
    """The first traceback, plain or in a JSON field. A lost database is logged without one."""
    for number, line in enumerate(lines):
        if '"event": "process_failed"' in line or "Traceback (most recent call last)" in line:
            yield "\n".join(lines[number : number + TRACEBACK_LINES])[:4000].replace("\\n", "\n")
            return


def _reset(line: str) -> Reset:
    entry = json.loads(line)
    until = datetime.fromisoformat(entry["lease_expiration"]).timestamp()
    at = datetime.fromisoformat(entry["timestamp"]).timestamp()
    return Reset(entry["job_id"], pid_of(entry["worker_id"]), until, at)


def pid_of(worker_id: str) -> int:
    return int(worker_id.split(":")[1])
