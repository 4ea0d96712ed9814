"""The machine that runs the benchmark, and the CPU time and memory of its processes (Linux)."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def as_text(description: dict[str, Any]) -> str:
    text = f"{description['cores']} cores, {description['processor']}, Python {description['python']}"
    if description["load_at_start"] > 0.5 * description["cores"]:
        text += (
            f"\nThe machine is busy (load {description['load_at_start']:g}): "
            "compare results only with others of this run."
        )
    return text


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


class CpuUsage:
    """CPU seconds of groups of processes since its creation."""

    def __init__(self, pids: Mapping[str, Collection[int]]) -> None:
        self._pids = pids
        self._before = self._read()

    def used(self) -> dict[str, float]:
        now = self._read()
        return {name: now[name] - before for name, before in self._before.items()}

    def _read(self) -> dict[str, float]:
        return {name: cpu_of(pids) for name, pids in self._pids.items()}


def cpu_of(pids: Collection[int]) -> float:
    """CPU seconds of all threads, and of children that have ended and were waited for."""
    return sum(sum(int(_stat(pid)[field]) for field in (11, 12, 13, 14)) for pid in pids) / TICKS


def process_tree(pid: int) -> list[int]:
    """A process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    return tree


def memory_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may contain spaces: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
