"""A run: set up, start the processes, inject faults, wait for recovery, and check the claims."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from tools.demo import certificates
from tools.support.ports import free_port

from . import journal, observations, summary
from .claims import Verdict, check_claims
from .config import EVERY_LOOP, HUB, PRODUCERS, WEB, Config, environment
from .database import Database
from .fault_injector import FaultInjector
from .processes import ROOT, Processes, Slot
from .row_watcher import RowWatcher

POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
MAX_NAMED = 20
KEY = "api.key"


class Run:
    def __init__(self, config: Config, folder: Path, database: Database, url: str) -> None:
        self._config = config
        self._folder = folder
        self._database = database
        self._url = url
        self._measured: dict[str, Any] = {}
        self._done_at = 0.0

    def go(self) -> tuple[dict[str, Any], list[Verdict]]:
        authority, _ = certificates.write(self._folder)
        with ExitStack() as stack:
            urls = stack.enter_context(run_endpoint(self._folder, self._config.seed))
            self._processes = stack.enter_context(Processes(self._folder, environment(self._url, authority)))
            endpoints = (f"{path}={url}" for path, url in urls.items())
            self._processes.run("prepare", str(self._folder / KEY), *endpoints, module="tools.torture.prepare")
            with RowWatcher(self._database) as watcher:
                self._inject_faults()
                unfinished = self._recover()
                self._stop()
                watcher.sample()
            audit, replay = self._check("audit", "--grace", self._grace()), self._check("workflows", "replay")
        observed = observations.collect(self._folder, self._database)
        observed.changed, observed.unfinished = watcher.changes, unfinished
        observed.audit, observed.replay = audit, replay
        observed.exits = self._processes.exits
        self._measured |= {"final rows watched": watcher.rows, "rounds of watching": watcher.rounds}
        return summary.numbers(self._config, observed, self._measured), check_claims(observed)

    def _inject_faults(self) -> None:
        """Starts all processes and injects faults."""
        for kind, count in self._config.loops.items():
            for number in range(1, count + 1):
                command = {"module": "tools.torture.hub_process"} if kind == HUB else {}
                arguments = [] if kind == HUB else [f"run_{kind}"]
                self._processes.start(self._processes.add(f"{kind}-{number}", kind, *arguments, **command))
        self._address = f"127.0.0.1:{free_port()}"
        self._processes.start(self._processes.add(WEB, WEB, self._address, module="tools.torture.web_server"))
        self._until = time.monotonic() + self._config.seconds
        for number in range(1, PRODUCERS + 1):
            self._produce(self._processes.add(f"producer-{number}", "producer", module="tools.torture.producer"))
        # One more, which uses the HTTP API.
        self._produce(self._processes.add(f"producer-{WEB}", "producer", module="tools.torture.producer"))
        with journal.Journal(self._folder / "faults.jsonl") as faults:
            FaultInjector(self._config, self._processes, self._database, faults).run(self._produce)

    def _produce(self, slot: Slot) -> None:
        """Starts a producer with the rest of its share. Each start has its own name and journal."""
        entries = [entry for path in self._folder.glob(f"{slot.name}.*.jsonl") for entry in journal.read(path)]
        sent = sum(len(entry["events"]) for entry in entries if entry["type"] == "intent")
        share = self._config.events // PRODUCERS + 1 - sent
        if share > 0:
            name = f"{slot.name}.{slot.starts + 1}"
            seconds = max(1.0, self._until - time.monotonic())
            path = self._folder / f"{name}.jsonl"
            arguments = [name, f"{self._config.seed}:{name}", str(share), str(seconds), str(path)]
            if slot.name.endswith(WEB):
                arguments += [f"http://{self._address}", str(self._folder / KEY)]
            self._processes.start(slot, arguments)

    def _recover(self) -> list[str]:
        """Waits until all work is done. Returns the unfinished rows."""
        started = time.monotonic()
        until = started + self._config.converge_seconds
        for slot in self._processes.of(*EVERY_LOOP, WEB):
            if not slot.pid:
                self._processes.start(slot)
        self._processes.wait(self._processes.of("producer"), self._config.converge_seconds)
        self._measured["seconds until the last event"] = round(time.monotonic() - started, 1)
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        self._done_at = time.monotonic()
        self._measured["seconds until all had ended"] = round(self._done_at - started, 1)
        self._measured["seconds allowed"] = self._config.converge_seconds
        if left:
            left.insert(0, f"not converged {self._config.converge_seconds:g} s after the last fault")
        return left

    def _left(self) -> list[str]:
        """Descriptions of unfinished work."""
        queries = {
            "event {} is not routed": "SELECT event_id FROM routing_inbox",
            "delivery {} is {} after {} attempts, next at {}": "SELECT id, status, attempt_count, next_attempt_at "
            "FROM webhook_delivery_sagas WHERE status IN ('Pending', 'InProgress', 'PendingRetry')",
            "attempt {} of delivery {} is {} and not settled": "SELECT id, saga_id, status FROM webhook_delivery_jobs "
            "WHERE settled_at IS NULL",
            "event {} is not tracked": "SELECT event_id FROM workflow_inbox",
            "fact {} is not folded": "SELECT fact_id FROM workflow_touched",
        }
        left = [f"{slot.name} is still publishing" for slot in self._processes.of("producer") if slot.pid]
        for text, sql in queries.items():
            left += [text.format(*row) for row in self._database.rows(f"{sql} LIMIT {MAX_NAMED}")]
        return left

    def _stop(self) -> None:
        """Every loop must stop on SIGTERM with code 0."""
        loops = self._processes.of(*EVERY_LOOP, WEB)
        for slot in loops:
            self._processes.signal(slot, signal.SIGTERM)
        if not self._processes.wait(loops, STOP_SECONDS):
            raise RuntimeError("still running: " + ", ".join(slot.name for slot in loops if slot.pid))

    def _grace(self) -> str:
        """Seconds since everything was done: a workflow may have timed out after the loops were stopped."""
        return str(ceil(time.monotonic() - self._done_at) + 1)

    def _check(self, *command: str) -> str:
        """The output of a failed command; empty if it succeeds."""
        try:
            self._processes.run(command[0], *command)
        except RuntimeError as error:
            return str(error)
        return ""


@contextmanager
def run_endpoint(folder: Path, seed: int) -> Iterator[dict[str, str]]:
    """The endpoint in its own process. Yields its URLs by path."""
    command = [sys.executable, "-m", "tools.torture.endpoint", str(folder), str(seed)]
    (folder / "logs").mkdir(exist_ok=True)
    with (folder / "logs" / "endpoint.log").open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
            if process.poll() is not None:
                raise RuntimeError(f"the endpoint exited with {process.returncode}")
        finally:
            process.kill()
            process.wait()
