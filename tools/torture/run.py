"""A run: set up, start the processes, inject faults, wait for recovery, and judge."""

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

from . import evidence, journal, summary
from .chaos import Chaos
from .fleet import ROOT, Fleet, Slot
from .judge import Verdict, judge
from .plan import LOOPS, PRODUCERS, WEB, Plan, environment
from .sampler import Sampler
from .target import Target

POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
MAX_NAMED = 20
KEY = "api.key"


class Run:
    def __init__(self, plan: Plan, folder: Path, target: Target, url: str) -> None:
        self._plan = plan
        self._folder = folder
        self._target = target
        self._url = url
        self._measured: dict[str, Any] = {}
        self._done_at = 0.0

    def go(self) -> tuple[dict[str, Any], list[Verdict]]:
        authority, _ = certificates.write(self._folder)
        with ExitStack() as stack:
            urls = stack.enter_context(receiver(self._folder, self._plan.seed))
            self._fleet = stack.enter_context(Fleet(self._folder, environment(self._url, authority)))
            targets = (f"{path}={url}" for path, url in urls.items())
            self._fleet.run("stage", str(self._folder / KEY), *targets, module="tools.torture.stage")
            with Sampler(self._target) as sampler:
                self._inject_faults()
                unfinished = self._recover()
                self._stop()
                sampler.look()
            audit, replay = self._check("audit", "--grace", self._grace()), self._check("workflows", "replay")
        found = evidence.collect(self._folder, self._target)
        found.changed, found.unfinished, found.audit, found.replay = sampler.changed, unfinished, audit, replay
        found.endings = self._fleet.endings
        self._measured |= {"final rows watched": sampler.rows, "rounds of watching": sampler.rounds}
        return summary.numbers(self._plan, found, self._measured), judge(found)

    def _inject_faults(self) -> None:
        """Starts all processes and injects faults."""
        for kind, count in LOOPS.items():
            for number in range(1, count + 1):
                self._fleet.start(self._fleet.add(f"{kind}-{number}", kind, f"run_{kind}"))
        self._address = f"127.0.0.1:{free_port()}"
        self._fleet.start(self._fleet.add(WEB, WEB, self._address, module="tools.torture.web"))
        self._until = time.monotonic() + self._plan.seconds
        for number in range(1, PRODUCERS + 1):
            self._produce(self._fleet.add(f"producer-{number}", "producer", module="tools.torture.producer"))
        # One more, which uses the HTTP API.
        self._produce(self._fleet.add(f"producer-{WEB}", "producer", module="tools.torture.web_producer"))
        with journal.Journal(self._folder / "chaos.jsonl") as written:
            Chaos(self._plan, self._fleet, self._target, written).torment(self._produce)

    def _produce(self, slot: Slot) -> None:
        """Starts a producer with the rest of its share. Each start has its own name and journal."""
        before = [fact for path in self._folder.glob(f"{slot.name}.*.jsonl") for fact in journal.read(path)]
        asked = sum(len(fact["events"]) for fact in before if fact["say"] == "intent")
        share = self._plan.events // PRODUCERS + 1 - asked
        if share > 0:
            life = f"{slot.name}.{slot.lives + 1}"
            seconds = max(1.0, self._until - time.monotonic())
            path = self._folder / f"{life}.jsonl"
            arguments = [life, f"{self._plan.seed}:{life}", str(share), str(seconds), str(path)]
            if slot.name.endswith(WEB):
                arguments += [f"http://{self._address}", str(self._folder / KEY)]
            self._fleet.start(slot, arguments)

    def _recover(self) -> list[str]:
        """Waits until all work is done. Returns the unfinished rows."""
        calm = time.monotonic()
        until = calm + self._plan.converge_seconds
        for slot in self._fleet.of(*LOOPS, WEB):
            if not slot.pid:
                self._fleet.start(slot)
        self._fleet.wait(self._fleet.of("producer"), self._plan.converge_seconds)
        self._measured["seconds until the last event"] = round(time.monotonic() - calm, 1)
        while (left := self._left()) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        self._done_at = time.monotonic()
        self._measured["seconds until all had ended"] = round(self._done_at - calm, 1)
        self._measured["seconds allowed"] = self._plan.converge_seconds
        if left:
            left.insert(0, f"not converged {self._plan.converge_seconds:g} s after the last fault")
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
        left = [f"{slot.name} is still publishing" for slot in self._fleet.of("producer") if slot.pid]
        for text, sql in queries.items():
            left += [text.format(*row) for row in self._target.rows(f"{sql} LIMIT {MAX_NAMED}")]
        return left

    def _stop(self) -> None:
        """Every loop must stop on SIGTERM with code 0."""
        loops = self._fleet.of(*LOOPS, WEB)
        for slot in loops:
            self._fleet.signal(slot, signal.SIGTERM)
        if not self._fleet.wait(loops, STOP_SECONDS):
            raise RuntimeError("still running: " + ", ".join(slot.name for slot in loops if slot.pid))

    def _grace(self) -> str:
        """Seconds since everything was done: a workflow may have timed out after the loops were stopped."""
        return str(ceil(time.monotonic() - self._done_at) + 1)

    def _check(self, *command: str) -> str:
        """The output of a failed command; empty if it succeeds."""
        try:
            self._fleet.run(command[0], *command)
        except RuntimeError as found:
            return str(found)
        return ""


@contextmanager
def receiver(folder: Path, seed: int) -> Iterator[dict[str, str]]:
    """The endpoint in its own process. Yields its URLs by path."""
    command = [sys.executable, "-m", "tools.torture.receiver", str(folder), str(seed)]
    (folder / "logs").mkdir(exist_ok=True)
    with (folder / "logs" / "receiver.log").open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
            if process.poll() is not None:
                raise RuntimeError(f"the receiver has ended with {process.returncode}")
        finally:
            process.kill()
            process.wait()
