"""Upgrades a hub under load: processes of the previous release and of this version work side by side."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import MySQLdb

from tests.support.previous_release import VERSION, PreviousRelease
from tools.failover.site import MANAGE, Site, describe
from tools.support.network import LocalHost
from tools.support.ports import free_port
from tools.torture.database import Database
from webhookhub import __version__

HERE = LocalHost()
PROCESSES = "SELECT version, pid FROM hub_processes"
# Results that were reported since a time, by the process that reported them.
REPORTED = "SELECT DISTINCT worker_id FROM webhook_delivery_jobs WHERE finished_at > FROM_UNIXTIME({})"


class Upgrade:
    """`seconds`: how long each phase takes, with `rate` events per second and web server."""

    def __init__(self, site: Site, database: Database, release: PreviousRelease, seconds: float, rate: int) -> None:
        self._site, self._database, self._release = site, database, release
        self._seconds, self._rate = seconds, rate

    def run(self) -> None:
        self._site.prepare(HERE, HERE, **self._release.variables)
        self._start_old()
        time.sleep(self._seconds)

        self._command("upgrade")
        self._works_since_now("old loops")

        self._start_new()
        started_at = time.time()
        time.sleep(self._seconds)
        self._command("audit", "--grace", "30")
        assert self._pids_that_reported(started_at) == {self._loops("old loops"), self._loops("new loops")}
        assert {version for version, _ in self._database.rows(PROCESSES)} == {"", __version__}

        self._site.stop("producer-old", "old web", "old loops")
        self._works_since_now("new loops")
        assert f"of {VERSION}" not in self._command("version")
        self._site.stop("producer-new")
        violations = describe(self._site.judge(HERE))
        assert not violations, violations
        self._site.stop("new web", "new loops")

    def _start_old(self) -> None:
        release = self._release
        self._site.start("old loops", HERE, release.command("run_hub"), **release.variables)
        port, probes = free_port(), free_port()
        url = self._site.start_web("old web", HERE, port, probes, release.command(), **release.variables)
        self._site.start_producer("old", HERE, url, self._rate)

    def _start_new(self) -> None:
        self._site.start_loops("new loops", HERE)
        url = self._site.start_web("new web", HERE, free_port(), free_port())
        self._site.start_producer("new", HERE, url, self._rate)
        self._site.wait_for(lambda: __version__ in dict(self._database.rows(PROCESSES)), "the new loops register")

    def _works_since_now(self, loops: str) -> None:
        """Events are delivered by these loops, and by no others."""
        now = time.time()
        self._site.wait_for(lambda: self._pids_that_reported(now) == {self._loops(loops)}, f"{loops} deliver")
        time.sleep(self._seconds)
        assert self._pids_that_reported(now) == {self._loops(loops)}

    def _loops(self, name: str) -> int:
        return self._child_of(self._site.running[name].pid)

    def _child_of(self, pid: int) -> int:
        """The process of all steps; the supervisor, its parent, delivers nothing."""
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def _pids_that_reported(self, since: float) -> set[int]:
        return {int(worker.split(":")[1]) for (worker,) in self._database.rows(REPORTED.format(since))}

    def _command(self, *arguments: str) -> str:
        command = [*MANAGE, *arguments]
        done = subprocess.run(command, env=self._site.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def empty_database(url: str, name: str) -> Iterator[tuple[Database, str]]:
    """A database of its own on the server of `url`, and its URL."""
    server = urlsplit(url)
    login = {"host": server.hostname, "port": server.port, "user": server.username, "passwd": server.password}
    connection = MySQLdb.connect(**login, autocommit=True)
    cursor = connection.cursor()
    cursor.execute(f"DROP DATABASE IF EXISTS {name}")
    cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    try:
        yield UrlDatabase(login, name), server._replace(path=f"/{name}").geturl()
    finally:
        cursor.execute(f"DROP DATABASE {name}")
        connection.close()


class UrlDatabase(Database):
    def __init__(self, login: Mapping[str, object], name: str) -> None:
        super().__init__(0)
        self._login, self._database = login, name

    @contextmanager
    def connection(self) -> Iterator[MySQLdb.Connection]:
        connection = MySQLdb.connect(
            **self._login,
            db=self._database,
            charset="utf8mb4",
            read_timeout=60,
            autocommit=True,
            init_command=f"SET {self.session}",
        )
        try:
            yield connection
        finally:
            connection.close()
