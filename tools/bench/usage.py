"""What processes have used, by the kernel's own account (Linux)."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of all threads, and of the children that have ended and were waited for."""
    fields = _stat(pid)
    return sum(int(fields[number]) for number in (11, 12, 13, 14)) / TICKS


def cpu_of(pids: Collection[int]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def family(pid: int) -> list[int]:
    """A process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except OSError:
                continue  # it has ended in the meantime
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def memory_mb(pid: int) -> float:
    """What it has in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")


def _stat(pid: int) -> list[str]:
    """The fields behind the command's name, which may hold blanks: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
