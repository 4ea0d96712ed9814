"""A checkout's hub as users run it: `manage.py run_hub --web`, the HTTP API, and a database of its own.

Nothing here imports the hub's code, so that another checkout can be measured with its own code and packages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tools.bench import hub, load, machine
from tools.bench.context import ROOT, Context
from tools.bench.database import SAGAS, Server
from tools.bench.endpoint import Arrival
from tools.bench.producer import Posted
from tools.support.ports import free_port

SINGLE, FAN_OUT = "bench.single", "bench.fan_out"
WARM_UP = {SINGLE: 200, FAN_OUT: 10}
SCOPES = ("events:write", "read", "subscriptions:write")
KEY = re.compile(r"whk_[\w-]+")
# Of `manage.py` and of seeding millions of rows.
CALL_SECONDS = 3 * 3600.0
# A hub is idle if it uses less than this share of a core for some seconds; it must become idle in time.
IDLE_CORES, IDLE_SECONDS, BUSY_SECONDS = 0.06, 3.0, 1800.0


@dataclass(frozen=True)
class Checkout:
    folder: Path

    @property
    def python(self) -> str:
        """The interpreter of its own environment."""
        own = self.folder / ".venv" / "bin" / "python"
        return str(own) if self.folder.resolve() != ROOT else sys.executable

    @property
    def commit(self) -> str:
        command = ["git", "-C", str(self.folder), "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


class Installation:
    """A checkout with a migrated database, optionally with finished deliveries, an API key and subscriptions."""

    def __init__(self, context: Context, label: str, checkout: Checkout, name: str, stored: int = 0) -> None:
        """`name`: of the database."""
        self.label = label
        self.checkout = checkout
        self.stored = stored
        self.context = context
        self.url = context.create_database(name)
        self._environment = context.environment(
            self.url,
            WEBHOOKHUB_API_EVENTS_PER_SECOND="100000",
            WEBHOOKHUB_ALLOWED_HOSTS="127.0.0.1",
        )
        del self._environment["WEBHOOKHUB_WORKFLOW_DEFINITIONS"]
        self._call("manage.py", "migrate")
        if stored:
            self._seed()
        scopes = [part for scope in SCOPES for part in ("--scope", scope)]
        [*_, self.key] = KEY.findall(self._call("manage.py", "api_key", "create", "bench", *scopes))
        self._subscribed = False

    @contextmanager
    def running(self) -> Iterator[RunningHub]:
        """The hub, warmed up."""
        port = free_port()
        folder = self.context.folder / "logs"
        folder.mkdir(exist_ok=True)
        log = folder / f"{self.label}-{port}.log"
        workers = str(self.context.options.workers)
        command = [self.checkout.python, "manage.py", "run_hub", "--workers", workers, "--web", f"127.0.0.1:{port}"]
        process = hub.start_process(command, self._environment, log, self.checkout.folder)
        try:
            running = RunningHub(self, process, port, log)
            load.wait_until(lambda: hub.is_ready(port), 1, running.check_alive, hub.START_SECONDS)
            if not self._subscribed:
                running.subscribe()
                running.wait_until_idle()
                self._subscribed = True
            for event_type, count in WARM_UP.items():
                running.deliver(event_type, count)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(hub.STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _seed(self) -> None:
        none = [f"--{name}=0" for name in ("dead", "retried", "waiting", "requeued")]
        self._call("-m", "tools.bench.seed_bulk", f"--sagas={self.stored}", *none, "--subscriptions=4")

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.checkout.python, *arguments],
            env=self._environment,
            cwd=self.checkout.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=CALL_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed in {self.checkout.folder}:\n{done.stdout}{done.stderr}")
        return done.stdout


class RunningHub:
    def __init__(self, installation: Installation, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.installation = installation
        self.context = installation.context
        self.pid = process.pid
        self.port = port
        self._process = process
        self._log = log

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"run_hub exited with {self._process.returncode}:\n{self._log.read_text()[-3000:]}")

    def subscribe(self) -> None:
        """One subscription for single events and one for each endpoint of the fan-out, all verified."""
        single, *others = self.context.api_endpoint.urls
        for event_type, url in [(SINGLE, single), *((FAN_OUT, url) for url in others)]:
            created = self._api("/api/v1/subscriptions", {"event_type": event_type, "callback_url": url})
            self._api(f"/api/v1/subscriptions/{created['id']}/verify", {})

    def deliver(
        self, event_type: str, count: int, *, size: int = 1, connections: int = 16, rate: float | None = None
    ) -> Delivered:
        """Posts events and waits until the endpoints have received all of them."""
        endpoint = self.context.api_endpoint
        endpoint.take()
        posted = self.post(event_type, count, size=size, connections=connections, rate=rate)
        width = len(endpoint.urls) - 1 if event_type == FAN_OUT else 1
        try:
            load.wait_until(lambda: endpoint.counts().received, count * width, self.check_alive)
        except load.Stalled as error:
            raise load.Stalled(f"{error}\n{self._log.read_text()[-3000:]}") from None
        return Delivered(posted, endpoint.take(), width)

    def post(
        self, event_type: str, count: int, *, size: int = 1, connections: int = 1, rate: float | None = None
    ) -> list[Posted]:
        """Posts events and waits for the responses of the API only."""
        producer, key = self.context.producer, self.installation.key
        if rate is None:
            return producer.drain(self.port, key, event_type, count, size=size, connections=connections)
        return producer.trickle(self.port, key, event_type, count, rate)

    def newest_delivery(self) -> tuple[int, str]:
        """Id and status of the newest saga, by one statement."""
        [(newest, status)] = self.server.execute(f"SELECT id, status FROM {SAGAS} ORDER BY id DESC LIMIT 1")
        return int(newest), str(status)

    def wait_for_completed(self, after: int) -> int:
        """Waits until the newest saga is Completed and its id is above `after`. Returns the statements used."""
        statements = 0

        def completed() -> int:
            nonlocal statements
            statements += 1
            newest, status = self.newest_delivery()
            return int(newest > after and status == "Completed")

        load.wait_until(completed, 1, self.check_alive)
        return statements

    def wait_until_idle(self) -> None:
        """Waits until the hub has no work left: it rolls up the stats of seeded deliveries, for example."""
        until = time.monotonic() + BUSY_SECONDS
        before = sum(machine.tree_cpu(self.pid).values())
        while time.monotonic() < until:
            time.sleep(IDLE_SECONDS)
            self.check_alive()
            now = sum(machine.tree_cpu(self.pid).values())
            if now - before < IDLE_CORES * IDLE_SECONDS:
                return
            before = now
        raise RuntimeError(f"the hub was still busy after {BUSY_SECONDS:g} s without events")

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, of the hub by kind of process and of the database."""
        return machine.tree_cpu(self.pid) | {"database": machine.cpu_of([self.context.server.pid])}

    def memory_mb(self) -> float:
        """Of the hub's own processes, without the database."""
        return machine.tree_memory_mb(self.pid)

    @cached_property
    def server(self) -> Server:
        """A connection to the hub's database, to read its state and the server's status."""
        return self.context.connect(self.installation.url)

    def _api(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.installation.key}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(document), headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if response.status // 100 != 2:
            raise RuntimeError(f"POST {path}: {response.status} {body.decode()}")
        result: dict[str, Any] = json.loads(body)
        return result


class Delivered:
    """Requests to the API and their arrivals at the endpoints. The first arrival of a delivery counts."""

    def __init__(self, posted: list[Posted], arrivals: list[Arrival], width: int) -> None:
        self.posted = posted
        first: dict[tuple[str, int], float] = {}
        for arrival in arrivals:
            first.setdefault((arrival.message_id, arrival.port), arrival.at)
        self.duplicates = len(arrivals) - len(first)
        due = {uid: request.due for request in posted for uid in request.uids}
        ours = {delivery: at for delivery, at in first.items() if delivery[0] in due}
        self.expected = len(due) * width
        self.received = len(ours)
        # Seconds: from the due time of each event to its arrivals, and to the API's response.
        self.latencies = [at - due[uid] for (uid, _), at in ours.items()]
        self.responses = [request.done - request.due for request in posted]
        self.seconds = max(ours.values(), default=0.0) - min(due.values())

    @property
    def rate(self) -> float:
        return self.received / self.seconds

    @property
    def faults(self) -> int:
        """Lost and duplicate deliveries."""
        return self.expected - self.received + self.duplicates
