"""What all scenarios share: their sizes and time limit, the endpoint, a private server and its databases."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import certifi

from tools.bench import names
from tools.bench.database import Embedded, ExistingServer, Server
from tools.bench.endpoint import Endpoint, run_endpoint
from tools.bench.producer import Producer, run_producer
from tools.demo import certificates, folders
from tools.support.database_server import PrivateServer
from webhookhub.crypto import new_key

if TYPE_CHECKING:
    from tools.bench.installation import Installation

D = TypeVar("D", Server, Embedded)
T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PORTS = 8
# Of the scenarios that use the HTTP API: one endpoint for single events, and those of the fan-out.
FAN_OUT = 10
# A commit is on disk before it is acknowledged: in the redo log, and in the binary log where the server has one.
# The binary log is left at the server's default: MySQL writes it, MariaDB does not.
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-buffer-pool-size=1G")
MYSQL = ("--log-bin=binlog", "--mysqlx=OFF", "--secure-file-priv=NULL")


@dataclass(frozen=True)
class Sizes:
    """Numbers of deliveries, unless noted otherwise. A full run takes about twelve minutes."""

    repeats: int = 3
    drain: int = 20_000
    variants: bool = True
    celery: int = 2_000
    celery_settings: tuple[tuple[str, int], ...] = (("prefork", 2), ("prefork", 4), ("prefork", 8), ("threads", 16))
    rates: tuple[int, ...] = (50, 200, 500)  # events per second
    latency_seconds: float = 10.0
    backlogs: tuple[int, ...] = (10_000, 100_000, 1_000_000)  # stored deliveries
    backlog: int = 5_000
    scale: int = 10_000
    embedded: int = 3_000
    idle_seconds: float = 20.0
    concurrency: int = 500
    single: int = 3_000  # the floor of single events, and single posts
    batches: int = 3_000
    fan_out: int = 300  # events
    api_rates: tuple[int, ...] = (50, 100, 200)
    api_seconds: float = 20.0
    alone: int = 20  # events whose statements are counted, one by one
    silence_seconds: float = 10.0
    silences: int = 5
    # Of the scenario `isolation`.
    isolation_seconds: float = 30.0
    waiting: int = 300_000
    hanging: int = 30  # endpoints
    hanging_waiting: int = 1_000  # for each
    burst: int = 100_000  # events
    refusing: int = 100_000
    idle_waiting: int = 2_000_000

    def with_waiting(self, waiting: int) -> Sizes:
        """The other sizes of `isolation` in proportion."""
        return replace(
            self,
            waiting=waiting,
            hanging_waiting=max(1, waiting // 300),
            burst=max(1, waiting // 3),
            refusing=max(1, waiting // 3),
            idle_waiting=max(1, waiting * 20 // 3),
        )


FULL = Sizes()
QUICK = replace(
    FULL,
    repeats=1,
    drain=1_000,
    variants=False,
    celery=500,
    celery_settings=(("prefork", 4),),
    rates=(50,),
    latency_seconds=3.0,
    backlogs=(1_000, 10_000),
    backlog=500,
    scale=1_000,
    embedded=500,
    idle_seconds=5.0,
    single=300,
    batches=1_000,
    fan_out=30,
    api_rates=(50,),
    api_seconds=4.0,
    alone=5,
    silence_seconds=2.0,
    silences=2,
    isolation_seconds=5.0,
    hanging=5,
).with_waiting(6_000)


@dataclass(frozen=True)
class Options:
    """`compare`, `stored`, `rounds`, `parts`, `workers`: for the scenarios that use the HTTP API."""

    sizes: Sizes = FULL
    mysqld: str | None = None
    profile: Path | None = None
    database_url: str | None = None
    compare: tuple[Path, ...] = ()
    stored: tuple[int, ...] = (0,)
    rounds: int | None = None
    parts: tuple[str, ...] = ()
    workers: int = 1


class Budget:
    """The time limit of the benchmark, shared among its scenarios."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started = time.monotonic()
        self._until = self._started
        # Runs of the current scenario that were skipped because of the time limit.
        self.skipped_runs = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def remaining(self) -> float:
        """Seconds until the current scenario has used its share."""
        return self._until - time.monotonic()

    def allow(self, share: float) -> None:
        """Starts the next scenario with its share of the total time and the time that earlier ones have left over."""
        self.skipped_runs = 0
        self._until += share * self._seconds

    def within(self, items: Collection[T], part: float = 1.0) -> Iterator[T]:
        """Yields the first item, and further ones while the remaining time suffices for the slowest so far.

        Uses at most `part` of the remaining time.
        """
        longest = 0.0
        reserved = (1 - part) * self.remaining
        for index, item in enumerate(items):
            started = time.monotonic()
            if index and longest > self.remaining - reserved:
                self.skipped_runs += len(items) - index
                return
            yield item
            longest = max(longest, time.monotonic() - started)


class Context(Budget):
    """A context manager. Creates each part when it is first used, and removes everything on exit."""

    def __init__(self, options: Options, minutes: float = 10.0) -> None:
        super().__init__(minutes * 60)
        self.options = options
        self._stack = ExitStack()
        self._databases: dict[str, Server] = {}
        # Of the scenarios that use the HTTP API; created by tools.bench.turns.
        self.installations: list[Installation] = []

    def __enter__(self) -> Context:
        self.folder = Path(tempfile.mkdtemp(prefix="webhookhub-bench-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        authority, self._certificate = certificates.write(self.folder, ("localhost", "127.0.0.1", f"*.{names.DOMAIN}"))
        # Includes the public authorities, as most installations do: they cost time and memory, too.
        self.authorities = self.folder / "authorities.pem"
        self.authorities.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.read_bytes())
        self.encryption_key = new_key()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    @property
    def sizes(self) -> Sizes:
        return self.options.sizes

    @cached_property
    def endpoint(self) -> Endpoint:
        return self._stack.enter_context(run_endpoint(self._certificate, PORTS))

    @cached_property
    def api_endpoint(self) -> Endpoint:
        """The endpoints of the scenarios that use the HTTP API: one for single events, then those of the fan-out."""
        return self._stack.enter_context(run_endpoint(self._certificate, 1 + FAN_OUT))

    def extra_endpoint(self, ports: int) -> AbstractContextManager[Endpoint]:
        return run_endpoint(self._certificate, ports)

    @cached_property
    def producer(self) -> Producer:
        return self._stack.enter_context(run_producer())

    @property
    def has_server(self) -> bool:
        """Whether a scenario has started the server."""
        return "server" in self.__dict__

    def server_version(self) -> str:
        [(version, comment)] = self.connect().execute("SELECT VERSION(), @@version_comment")
        return f"{version} ({comment})"

    @cached_property
    def server(self) -> PrivateServer | ExistingServer:
        if self.options.database_url:
            return self._stack.enter_context(ExistingServer(self.options.database_url))
        program = self.options.mysqld
        is_mysql = program is not None and not program.endswith("mariadbd")
        server = PrivateServer([*DURABLE, *(MYSQL if is_mysql else ())], program)
        return self._stack.enter_context(server)

    def database(self, name: str = "webhookhub") -> Server:
        """A migrated database with the subscriptions of tools.bench.load, created at the first call."""
        if name not in self._databases:
            url = self.server.url(name) if name == "webhookhub" else self.create_database(name)
            self._prepare(url)
            self._databases[name] = self._close_on_exit(Server(url))
        return self._databases[name]

    def create_database(self, name: str) -> str:
        """Creates an empty database, which is dropped at the end. Returns its URL."""
        url = self.server.url(name)
        name, connection = url.rpartition("/")[2], self.connect()
        connection.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        self._stack.callback(connection.execute, f"DROP DATABASE {name}")
        return url

    def connect(self, url: str | None = None) -> Server:
        """A new connection, to the default database if there is no URL, migrated or not."""
        return self._close_on_exit(Server(url or self.server.url()))

    def embedded_database(self) -> Embedded:
        """A new file at each call."""
        file = Path(tempfile.mkdtemp(dir=self.folder)) / "hub.sqlite3"
        self._prepare(f"sqlite:///{file}")
        return self._close_on_exit(Embedded(file))

    def environment(self, url: str, **more: str) -> dict[str, str]:
        """The hub's default settings, except for the log level, access to the endpoint, and the sample workflows."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("WEBHOOKHUB_", "DJANGO_"))
        }
        return {
            **inherited,
            "DATABASE_URL": url,
            "WEBHOOKHUB_SECRET_KEY": "a scratch database needs no secret",
            "WEBHOOKHUB_ENCRYPTION_KEYS": self.encryption_key,
            "WEBHOOKHUB_CA_BUNDLE": str(self.authorities),
            "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
            "WEBHOOKHUB_ALLOWED_PORTS": "1024-65535",
            "WEBHOOKHUB_LOG_LEVEL": "WARNING",
            "WEBHOOKHUB_WORKFLOW_DEFINITIONS": str(folders.SAMPLE_WORKFLOWS),
            **more,
        }

    def call(self, *arguments: str, url: str) -> subprocess.CompletedProcess[str]:
        """Runs `python …` in the hub's environment and waits for it."""
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=self.environment(url), cwd=ROOT, capture_output=True, text=True, check=False)

    def _prepare(self, url: str) -> None:
        done = self.call("-m", "tools.bench.prepare_database", *self.endpoint.urls, url=url)
        if done.returncode:
            raise RuntimeError(f"the database could not be prepared:\n{done.stdout}{done.stderr}")

    def _close_on_exit(self, database: D) -> D:
        self._stack.callback(database.close)
        return database
