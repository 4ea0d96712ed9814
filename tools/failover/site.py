"""A hub on the hosts of a network: a web server, loops on other hosts, producers, an endpoint and their journals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import MySQLdb

from tools.bench.machine import process_tree
from tools.demo import certificates
from tools.support.network import SUBNET, Host
from tools.torture import observations
from tools.torture.claims import CLAIMS, Verdict, check_claims
from tools.torture.claims.responses import failures_have_causes, steady_ones_complete
from tools.torture.config import environment
from tools.torture.database import Database
from tools.torture.journal import Journal
from tools.torture.processes import ROOT

from .measured import Outage, outage
from .producer import REQUEST_SECONDS

MANAGE = (sys.executable, str(ROOT / "manage.py"))
NOTES = ROOT / "var" / "test-all" / "figures.txt"
WEB_PORT, PROBES_PORT = 8000, 8001
PATH = "/steady"
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
RECOVERY_SECONDS = 120.0
# Younger events are being delivered.
CURRENT_SECONDS = 2.0
# Locks of a vanished host end within 20 seconds; retries outlast every cut.
SETTINGS = {
    "WEBHOOKHUB_ALLOWED_NETWORKS": f"{SUBNET}.0/24,127.0.0.0/8",
    "WEBHOOKHUB_ALLOWED_HOSTS": "*",
    "WEBHOOKHUB_DATABASE_LOCK_LIMIT": "20",
    "WEBHOOKHUB_BASE_DELAY": "0.5",
    "WEBHOOKHUB_MAX_DELAY": "5",
    "WEBHOOKHUB_POLL_INTERVAL": "0.5",
}
# These need a fault injector that kills processes and an endpoint that always can be reached.
NOT_JUDGED = {failures_have_causes, steady_ones_complete}
UNFINISHED = {
    "event {} is not routed": "SELECT event_id FROM routing_inbox LIMIT 5",
    "delivery {} is {} after {} attempts": "SELECT id, status, attempt_count FROM webhook_delivery_sagas "
    "WHERE status IN ('Pending', 'InProgress', 'PendingRetry') LIMIT 5",
    "attempt {} is {} and not settled": "SELECT id, status FROM webhook_delivery_jobs WHERE settled_at IS NULL LIMIT 5",
}


class SocketDatabase(Database):
    """Read through the server's socket file, which no cut reaches. `socket` returns that of the current writer."""

    def __init__(self, socket: Callable[[], Path]) -> None:
        super().__init__(0)
        self._socket = socket

    @contextmanager
    def connection(self) -> Any:
        connection = MySQLdb.connect(
            unix_socket=str(self._socket()),
            user="hub",
            passwd="hub",
            db="webhookhub",
            charset="utf8mb4",
            connect_timeout=5,
            read_timeout=60,
            autocommit=True,
            init_command=f"SET {self.session}",
        )
        try:
            yield connection
        finally:
            connection.close()


class Site:
    """A context manager."""

    def __init__(self, folder: Path, database: Database, url: str, **settings: str) -> None:
        self.folder = folder
        (folder / "logs").mkdir(parents=True)
        self._faults = Journal(folder / "faults.jsonl")
        self.database = database
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._url = url
        self._settings = settings
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *exception: Any) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self._faults.close()

    def prepare(self, endpoint: Host, hub: Host, **variables: str) -> None:
        """Starts the endpoint, migrates, and creates an API key and a subscription.

        `variables` of the environment may name another version of the hub.
        """
        authority, _ = certificates.write(self.folder, ("localhost", endpoint.address))
        self.environment = {**environment(self._url, authority), **SETTINGS, **self._settings}
        urls = self._start_endpoint(endpoint)
        code = "import sys, django; django.setup(); from tools.torture.prepare import main; main(sys.argv[1:])"
        arguments = [str(self.key_file), f"{PATH}={urls[PATH]}"]
        process = self.start("prepare", hub, [sys.executable, "-c", code, *arguments], **variables)
        if process.wait(120):
            raise RuntimeError(self.log("prepare"))
        del self.running["prepare"]

    @property
    def key_file(self) -> Path:
        return self.folder / "api.key"

    def _start_endpoint(self, host: Host) -> Mapping[str, str]:
        command = [sys.executable, "-m", "tools.torture.endpoint", str(self.folder), "1", host.address]
        log = self.folder / "logs" / "endpoint.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*host.prefix, *command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.running["endpoint"] = process
        assert process.stdout is not None
        return dict(json.loads(process.stdout.readline()))

    def start(self, name: str, host: Host, command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        log = self.folder / "logs" / f"{name}.log"
        self.running[name] = host.start(command, log, {**self.environment, "PYTHONPATH": str(ROOT), **variables})
        return self.running[name]

    def start_loops(self, name: str, host: Host, *options: str) -> None:
        self.start(name, host, [*MANAGE, "run_hub", *options])

    def start_web(
        self,
        name: str,
        host: Host,
        port: int = WEB_PORT,
        probes: int = PROBES_PORT,
        manage: Sequence[str] = MANAGE,
        **variables: str,
    ) -> str:
        """Returns its URL when it responds."""
        options = ["run_web", f"0.0.0.0:{port}", "--probes", f"0.0.0.0:{probes}"]
        self.start(name, host, [*manage, *options], **variables)
        self.wait_for(lambda: self.probe(host, "/healthz", probes) == 200, f"{name} responds")
        return f"http://{host.address}:{port}"

    def start_producer(self, name: str, host: Host, url: str, rate: float, burst: int = 0) -> None:
        path = self.folder / f"producer-{name}.jsonl"
        arguments = [name, url, str(self.key_file), str(path), str(rate), str(burst)]
        self.start(f"producer-{name}", host, [sys.executable, "-m", "tools.failover.producer", *arguments])

    def prefer(self, *servers: int) -> None:
        """Lets the processes of the site and the database servers run before all others, as if the machine did nothing
        else: what they take is then their own. Needs root."""
        for pid in [*servers, *(pid for process in self.running.values() for pid in process_tree(process.pid))]:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))

    def probe(self, host: Host, path: str, port: int = PROBES_PORT) -> int:
        """The status of a probe from the host itself; 0 without a response within 2 seconds."""
        url = f"http://127.0.0.1:{port}{path}"
        code = "import sys, requests; print(requests.get(sys.argv[1], timeout=2).status_code)"
        result = subprocess.run([*host.prefix, sys.executable, "-c", code, url], capture_output=True, text=True)
        return int(result.stdout) if result.returncode == 0 else 0

    def stop(self, *names: str) -> None:
        """Each must end with 0 after SIGTERM."""
        for name in names:
            self.running[name].send_signal(signal.SIGTERM)
        for name in names:
            code = self.running[name].wait(STOP_SECONDS)
            del self.running[name]
            if code:
                raise RuntimeError(f"{name} exited with {code}:\n{self.log(name)}")

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text(errors="replace")[-6000:]

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = 90.0) -> None:
        until = time.monotonic() + seconds
        while not condition():
            ended = [name for name, process in self.running.items() if process.poll() is not None]
            if ended or time.monotonic() > until:
                logs = "\n".join(f"--- {name}\n{self.log(name)}" for name in ended or self.running)
                raise RuntimeError(f"waited {seconds:g} s for: {what}; ended: {ended}\n{logs}")
            time.sleep(POLL_SECONDS)

    def unfinished(self) -> list[str]:
        return [text.format(*row) for text, sql in UNFINISHED.items() for row in self.database.rows(sql)]

    def age_of_oldest(self) -> float:
        """The seconds since the oldest event that is not delivered was created; 0 without one."""
        [(age,)] = self.database.rows(
            "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, created_at, UTC_TIMESTAMP(6))), 0) / 1000000 FROM events "
            "WHERE id IN (SELECT event_id FROM routing_inbox UNION SELECT event_id FROM webhook_delivery_sagas "
            "WHERE status IN ('Pending', 'InProgress', 'PendingRetry'))"
        )
        return float(age)

    def fault(self, name: str, inject: Callable[[], object], mend: Callable[[], object], seconds: float) -> Outage:
        """Injects a fault for so many seconds, and waits until deliveries take no longer than before."""
        started_at = time.time()
        # The judge's words for a time in which every lease may be lost.
        self._faults.write("database killed", fault=name)
        inject()
        time.sleep(seconds)
        mend()
        mended_at = time.time()
        self.wait_for(lambda: self.is_current(mended_at), f"recovery from: {name}", RECOVERY_SECONDS)
        # A request that was sent before the end of the fault may still wait for its time-out.
        time.sleep(REQUEST_SECONDS + 1)
        self._faults.write("database restored", fault=name)
        return outage(self.folder, name, started_at, mended_at, time.time())

    def is_current(self, since: float) -> bool:
        """Whether events are accepted since then, and no event has been waiting for long."""
        return self.has_accepted(since) and self.age_of_oldest() < CURRENT_SECONDS

    def has_accepted(self, since: float) -> bool:
        [(events,)] = self.database.rows(f"SELECT COUNT(*) FROM events WHERE created_at > FROM_UNIXTIME({since})")
        return bool(events)

    def judge(self, hub: Host) -> list[Verdict]:
        """Waits until all is delivered, and checks the claims of the torture. The loops must be running."""
        self.wait_for(lambda: not self.unfinished(), "everything is delivered", RECOVERY_SECONDS)
        audit = subprocess.run(
            [*hub.prefix, *MANAGE, "audit", "--grace", f"{CURRENT_SECONDS:.0f}"],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        observed = observations.collect(self.folder, self.database)
        observed.unfinished = self.unfinished()
        observed.audit = audit.stdout + audit.stderr if audit.returncode else ""
        self.observed = observed
        return check_claims(observed, [claim for claim in CLAIMS if claim.violations not in NOT_JUDGED])


def describe(verdicts: Sequence[Verdict]) -> str:
    """The violations; empty if every claim holds."""
    return "\n".join(f"{each.claim}\n  {text}" for each in verdicts for text in each.violations[:5])


def note(*lines: object) -> None:
    """Keeps figures in a file: pytest shows what a test prints only after a failure."""
    NOTES.parent.mkdir(parents=True, exist_ok=True)
    with NOTES.open("a") as file:
        file.writelines(f"{time.strftime('%H:%M:%S')} {line}\n" for line in lines)


def has_program(name: str) -> bool:
    return any(os.access(Path(folder) / name, os.X_OK) for folder in ("/usr/sbin", "/usr/local/sbin", "/usr/bin"))
