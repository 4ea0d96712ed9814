"""Runs pytest on one engine, in parallel."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

ENGINE_VARIABLE = "TEST_ENGINE"
SLOWEST = ("--durations=10", "--durations-min=1")
# Tests spend about half of their time waiting for processes and servers.
WORKERS_PER_CORE = 2
END_SECONDS = 20.0


def command(arguments: Sequence[str], workers: int | None = None) -> list[str]:
    """Each worker has its own database. A test chosen by name runs in this process, for a debugger."""
    if any("::" in argument for argument in arguments):
        workers = 0
    elif workers is None:
        workers = int(os.environ.get("TEST_WORKERS") or WORKERS_PER_CORE * (os.cpu_count() or 1))
    parallel = ["-n", str(workers), "--dist", "worksteal"]
    return [sys.executable, "-m", "pytest", *SLOWEST, *parallel, *arguments]


def environment(engine: str, url: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Otherwise hundreds of processes would compile the whole product again.
    return {**inherited, ENGINE_VARIABLE: engine, "TEST_DATABASE_URL": url}


def run(engine: str, url: str, arguments: Sequence[str]) -> int:
    """Returns pytest's exit code."""
    process = subprocess.Popen(command(arguments), env=environment(engine, url))
    try:
        return process.wait()
    except KeyboardInterrupt:  # Ctrl-C reaches pytest, too, which prints its summary
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        raise
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait(END_SECONDS)
        raise
