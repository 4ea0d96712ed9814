"""A private MySQL-family server in a scratch folder on a free port, for tests, benchmarks and the torture."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .ports import free_port

# A folder that the servers of one test run share; set by tests/support/scratch.py.
SCRATCH_VARIABLE = "TEST_SCRATCH"
START_SECONDS = 60.0
RESPONSE_SECONDS = 10
LOG_SHOWN = 6000
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"])
# Tests kill processes, not the machine: commits survive without a sync to disk.
QUICK_OPTIONS = ("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M", "--max-connections=300")


class NoServer(Exception):
    """There is no MySQL-family server program on this machine."""


def find() -> str:
    for name in ("mariadbd", "mysqld"):
        if path := shutil.which(name, path=SEARCH_PATH):
            return path
    raise NoServer("neither mariadbd nor mysqld was found; install mariadb-server, or set TEST_DATABASE_URL")


class PrivateServer:
    """A context manager; the server can be stopped, killed and started again on the same data."""

    # Called in the server's process before it runs.
    before_exec: Callable[[], None] | None = None

    def __init__(
        self, options: Sequence[str] = QUICK_OPTIONS, program: str | None = None, parent: Path | None = None
    ) -> None:
        """`parent`: where to create its folder, instead of the temporary folder."""
        self._parent = parent
        self._program = program or find()
        self._user = getpass.getuser()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def url(self, database: str = "webhookhub") -> str:
        return f"mysql://hub:hub@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> PrivateServer:
        try:
            self.prepare()
            self.start()
            self.create_database()
        except BaseException:  # Ctrl-C too: __exit__ is not called if __enter__ fails
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self) -> None:
        """Creates the folder and the initial data."""
        self._folder = Path(tempfile.mkdtemp(prefix="webhookhub-server-", dir=self._parent))
        shutil.chown(self._folder, self._user)
        self._initialise()

    def create_database(self) -> None:
        """Creates a user and an empty database."""
        self.execute(
            "CREATE USER hub@'%' IDENTIFIED BY 'hub'; GRANT ALL ON *.* TO hub@'%' WITH GRANT OPTION;"
            "CREATE DATABASE webhookhub CHARACTER SET utf8mb4"
        )

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [*self._command(), *self._options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=self.before_exec)
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self._program} did not start:\n{self._log_end()}")
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process and self.is_running:
            self._process.send_signal(how)
            self._process.wait()

    @property
    def version(self) -> str:
        """The version of the program, also if the server does not run."""
        result = subprocess.run(
            [self._program, "--no-defaults", "--version"], capture_output=True, text=True, check=True
        )
        return result.stdout.partition("Ver ")[2].strip()

    def kill(self) -> None:
        """Ends the server like a crash."""
        self.stop(signal.SIGKILL)

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_SHOWN:]

    @property
    def _is_mariadb(self) -> bool:
        return self._program.endswith("mariadbd")

    def _command(self) -> list[str]:
        return [
            self._program,
            "--no-defaults",
            f"--user={self._user}",
            f"--datadir={self._folder / 'data'}",
            f"--socket={self._folder / 'socket'}",
            f"--pid-file={self._folder / 'pid'}",
            # Its own: a starting server removes temporary tables that it takes for its own old ones, which crashes
            # another server that uses them.
            f"--tmpdir={self._folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-log-bin",
        ]

    def _initialise(self) -> None:
        """In a test run, the first server leaves a copy for the others: initialising takes seconds."""
        data, run = self._folder / "data", os.environ.get(SCRATCH_VARIABLE)
        template = Path(run) / f"{Path(self._program).name}-{self._user}" if run else None
        if template and template.exists():
            shutil.copytree(template, data)
            for path in [data, *data.rglob("*")]:
                shutil.chown(path, self._user)
            return
        self._install(data)
        if template:
            # Renamed when complete: another server may look for it at the same time.
            copy = shutil.copytree(data, self._folder / "template")
            with contextlib.suppress(OSError):
                copy.rename(template)

    def _install(self, data: Path) -> None:
        if self._is_mariadb:
            program = shutil.which("mariadb-install-db", path=SEARCH_PATH) or "mariadb-install-db"
            command = [program, "--no-defaults", f"--datadir={data}", f"--user={self._user}"]
            command += [f"--tmpdir={self._folder}"]  # as above
            command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
        else:
            command = [*self._command(), "--initialize-insecure"]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{result.stdout}{result.stderr}")

    def _connect(self, read_timeout: int = 0) -> Any:
        import MySQLdb

        return MySQLdb.connect(
            unix_socket=str(self._folder / "socket"), user="root", connect_timeout=5, read_timeout=read_timeout
        )

    def _is_ready(self) -> bool:
        import MySQLdb

        try:
            self._connect().close()
        except MySQLdb.Error:
            return False
        return True

    def execute(self, statements: str) -> None:
        """Executes as root, without connection limits."""
        connection = self._connect()
        with connection.cursor() as cursor:
            for statement in statements.split(";"):
                cursor.execute(statement)
        connection.close()
