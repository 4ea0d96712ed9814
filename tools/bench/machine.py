"""The machine that runs the benchmark, and the CPU time and memory of its processes (Linux)."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
LISTENING = "0A"  # in /proc/net/tcp


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


def tree_cpu(pid: int) -> dict[str, float]:
    """CPU seconds of a process and its descendants so far, by kind: `router` for `run_router`, `web`, or `hub`."""
    seconds: dict[str, float] = {}
    for member in process_tree(pid):
        try:
            kind, used = _kind(member), cpu_of([member])
        except OSError:
            continue  # it has ended meanwhile; its parent counts it
        seconds[kind] = seconds.get(kind, 0.0) + used
    return seconds


def _kind(pid: int) -> str:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    if any(Path(argument).name == "gunicorn" for argument in arguments):
        return "web"
    commands = [argument.removeprefix("run_") for argument in arguments if argument.startswith("run_")]
    return commands[0] if commands else "hub"


def busy_seconds() -> float:
    """Seconds that all cores together have spent on work since the start of the machine."""
    user, nice, system, _, _, *others = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *others))) / TICKS


def tree_memory_mb(pid: int) -> float:
    """Memory of a process and its descendants; memory that several processes share counts once (PSS)."""
    total = 0
    for member in process_tree(pid):
        try:
            rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def listening_process(port: int) -> int:
    """The id of the process that accepts connections at a TCP port of this machine."""
    inodes = {
        f"socket:[{fields[9]}]"
        for table in ("tcp", "tcp6")
        for fields in map(str.split, Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    }
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if any(os.readlink(file) in inodes for file in (entry / "fd").iterdir()):
                    return int(entry.name)
            except OSError:
                continue  # it has ended meanwhile, or belongs to another user
    raise ProcessLookupError(f"found no process of this machine that listens at port {port}")


def memory_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may contain spaces: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
