"""Starts the hub's commands as real processes on the test's database, and always ends them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection

from webhookhub.db import vendors

# Enough for a busy machine. Tests of quick reactions use settings that are longer than this.
TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.02
LOOPS = ("router", "orchestrator", "worker", "cleaner")

# Quick, but enough for a busy machine. The log format is the product's default.
QUICK = {
    "WEBHOOKHUB_LEASE": "8",
    "WEBHOOKHUB_LEASE_MARGIN": "0.5",
    "WEBHOOKHUB_REQUEST_TIMEOUT": "6",
    "WEBHOOKHUB_CONNECT_TIMEOUT": "5",
    "WEBHOOKHUB_WORKER_CONCURRENCY": "8",
    "WEBHOOKHUB_HEARTBEAT": "0.05",
}


def until(condition: Callable[[], Any], what: str, seconds: float = TIMEOUT_SECONDS) -> Any:
    """Waits for `condition` to become true and returns its result; fails with `what` after a time-out."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:g} s for: {what}")
        time.sleep(POLL_SECONDS)


def database_url() -> str:
    """The URL of the test database, as another process needs it."""
    database = connection.settings_dict
    if not vendors.is_server(connection):
        return f"sqlite:///{database['NAME']}"
    login = f"{quote(database['USER'], safe='')}:{quote(database['PASSWORD'], safe='')}"
    return f"mysql://{login}@{database['HOST']}:{database['PORT'] or 3306}/{database['NAME']}"


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Running:
    """One process and its output so far."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.command = command
        self._log = log
        self._out = log.with_suffix(".out")
        with log.open("wb") as errors, self._out.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=settings.BASE_DIR
            )
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        return self._log.read_text()

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def lines(self) -> int:
        return self._log.read_bytes().count(b"\n")

    def facts(self, name: str = "") -> list[dict[str, Any]]:
        """The complete log entries, with one name or all."""
        lines = [line for line in self.errors.split("\n")[:-1] if name in line]
        facts = [json.loads(line) for line in lines]
        return [fact for fact in facts if not name or fact["event"] == name]

    def wait_for(self, fact: str, count: int = 1) -> list[dict[str, Any]]:
        def logged() -> list[dict[str, Any]]:
            facts = self.facts(fact)
            if len(facts) < count and not self.is_alive:
                pytest.fail(f"ended without logging {fact}:\n{self.errors}")
            return facts if len(facts) >= count else []

        return list(until(logged, f"{fact} in the log:\n{self.errors}"))

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Like the kernel's out-of-memory killer or a power cut."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = TIMEOUT_SECONDS) -> int:
        """The exit code; negative for a signal."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds:g} s:\n{self.errors}")

    def stop(self, seconds: float = TIMEOUT_SECONDS) -> int:
        self.signal(signal.SIGTERM)
        return self.wait(seconds)


class Processes:
    """Starts processes and ends them at the end of the test."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self.environment = dict(environment)
        self.started: list[Running] = []

    def start(self, command: str, *arguments: str, **environment: str) -> Running:
        """`manage.py command`; keywords are added to the environment."""
        return self.execute([str(settings.BASE_DIR / "manage.py"), command, *arguments], **environment)

    def execute(self, arguments: list[str], **environment: str) -> Running:
        log = self._folder / f"{len(self.started)}.log"
        running = Running([sys.executable, *arguments], {**self.environment, **environment}, log)
        self.started.append(running)
        return running

    def start_loops(self, *arguments: str, **environment: str) -> dict[str, Running]:
        return {kind: self.start(f"run_{kind}", *arguments, **environment) for kind in LOOPS}

    def end(self) -> None:
        for running in self.started:
            if running.is_alive:
                running.kill()
            # Shown by pytest if the test fails.
            sys.stderr.write(f"--- {' '.join(running.command[1:])}\n{running.errors[-3000:]}\n")


def environment(authority: Path) -> dict[str, str]:
    """The test's own environment, the test database, and the authority of the endpoint's certificate."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SETTINGS_MODULE", "TEST_DATABASE_URL", "TEST_MYSQL_URL", "WEBHOOKHUB_LOG_FORMAT")
    }
    return {**inherited, **QUICK, "DATABASE_URL": database_url(), "WEBHOOKHUB_CA_BUNDLE": str(authority)}
