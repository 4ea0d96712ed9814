"""What the scenarios stand on: a receiver, a private server with durable commits, databases; all of it for one run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import certifi

from tools.bench.database import Embedded, Server
from tools.bench.echo import Echo, receiver
from tools.bench.options import Options, Sizes
from tools.bench.timing import Budget
from tools.demo import certificates
from tools.support.database_server import PrivateServer
from webhookhub.crypto import new_key

D = TypeVar("D", Server, Embedded)
ROOT = Path(__file__).resolve().parents[2]
PORTS = 8
# A commit is on the disk before it is acknowledged: in the redo log, and in the binary log where the server keeps one.
# Whether it does is left at the server's own default, as most installations leave it: MySQL does, MariaDB does not.
DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-buffer-pool-size=1G")
MYSQL = ("--log-bin=binlog", "--mysqlx=OFF", "--secure-file-priv=NULL")


class Context(Budget):
    """Everything is made when it is first asked for, and gone after the end, however that comes."""

    def __init__(self, options: Options, minutes: float = 10.0) -> None:
        super().__init__(minutes * 60)
        self.options = options
        self._stack = ExitStack()
        self._databases: dict[str, Server] = {}

    def __enter__(self) -> Context:
        self.folder = Path(tempfile.mkdtemp(prefix="webhookhub-bench-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        authority, self._certificate = certificates.write(self.folder)
        # With the public authorities, as most installations have them: they cost time and memory too.
        self.authorities = self.folder / "authorities.pem"
        self.authorities.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.read_bytes())
        self._key = new_key()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    @property
    def sizes(self) -> Sizes:
        return self.options.sizes

    @cached_property
    def echo(self) -> Echo:
        return self._stack.enter_context(receiver(self._certificate, PORTS))

    @property
    def has_server(self) -> bool:
        """Whether anybody has asked for one."""
        return "server" in self.__dict__

    def server_version(self) -> str:
        [(version, comment)] = self.bare_database().execute("SELECT VERSION(), @@version_comment")
        return f"{version} ({comment})"

    @cached_property
    def server(self) -> PrivateServer:
        program = self.options.mysqld
        is_mysql = program is not None and not program.endswith("mariadbd")
        server = PrivateServer([*DURABLE, *(MYSQL if is_mysql else ())], program)
        return self._stack.enter_context(server)

    def database(self, name: str = "webhookhub") -> Server:
        """A migrated database with the load's subscriptions, and nothing else in it the first time."""
        if name not in self._databases:
            if name != "webhookhub":
                self.bare_database().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            self._prepare(self.server.url(name))
            self._databases[name] = self._opened(Server(self.server.port, name))
        return self._databases[name]

    def bare_database(self) -> Server:
        """A connection of the caller's own to the server, whatever is in the database."""
        return self._opened(Server(self.server.port, "webhookhub"))

    def embedded_database(self) -> Embedded:
        """A fresh file each time."""
        file = Path(tempfile.mkdtemp(dir=self.folder)) / "hub.sqlite3"
        self._prepare(f"sqlite:///{file}")
        return self._opened(Embedded(file))

    def environment(self, url: str, **more: str) -> dict[str, str]:
        """What a process of the hub is told: the defaults, but for the log, and that it may reach the receiver."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("WEBHOOKHUB_", "DJANGO_"))
        }
        return {
            **inherited,
            "DATABASE_URL": url,
            "WEBHOOKHUB_SECRET_KEY": "a scratch database needs no secret",
            "WEBHOOKHUB_ENCRYPTION_KEYS": self._key,
            "WEBHOOKHUB_CA_BUNDLE": str(self.authorities),
            "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
            "WEBHOOKHUB_ALLOWED_PORTS": "1024-65535",
            "WEBHOOKHUB_LOG_LEVEL": "WARNING",
            **more,
        }

    def call(self, *arguments: str, url: str) -> subprocess.CompletedProcess[str]:
        """`python …` to its end, in the hub's environment."""
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=self.environment(url), cwd=ROOT, capture_output=True, text=True, check=False)

    def _prepare(self, url: str) -> None:
        done = self.call("-m", "tools.bench.prepare", *self.echo.urls, url=url)
        if done.returncode:
            raise RuntimeError(f"the database could not be prepared:\n{done.stdout}{done.stderr}")

    def _opened(self, database: D) -> D:
        self._stack.callback(database.close)
        return database
