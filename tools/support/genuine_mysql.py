"""A genuine MySQL server: that of the folder in TEST_MYSQL_ROOT, the root of a system with MySQL, which is run with
chroot; without it, that of this machine, unless it is MariaDB."""

from __future__ import annotations

import os
from pathlib import Path

from .database_server import QUICK_OPTIONS, NoServer, PrivateServer
from .network import Host, LocalHost, end_with_parent
from .ports import free_port

ROOT_VARIABLE = "TEST_MYSQL_ROOT"
PROGRAM = "/usr/sbin/mysqld"


def root() -> Path:
    """The root folder of the system with the server. Raises NoServer without one that this user can run."""
    folder = Path(os.environ.get(ROOT_VARIABLE) or "/")
    program = folder / PROGRAM.lstrip("/")
    if not program.exists() or program.resolve().name != "mysqld":
        raise NoServer(f"no genuine MySQL server in {folder}; set {ROOT_VARIABLE}")
    if folder != Path("/") and os.geteuid() != 0:
        raise NoServer(f"only root can run the server in {folder}")
    return folder


class GenuineServer(PrivateServer):
    """On the address of its host; ends with the thread that started it."""

    before_exec = staticmethod(end_with_parent)

    def __init__(
        self, options: tuple[str, ...] = QUICK_OPTIONS, host: Host | None = None, port: int | None = None
    ) -> None:
        self._root = root()
        self.host = host or LocalHost()
        super().__init__(options, program=PROGRAM, parent=self._root / "tmp")
        self.port = port or free_port()

    @property
    def socket(self) -> Path:
        return self._folder / "socket"

    @property
    def version(self) -> str:
        return "genuine MySQL"

    def _inside(self, path: Path) -> str:
        return f"/{path.relative_to(self._root)}"

    def _command(self) -> list[str]:
        data = self._inside(self._folder)
        return [
            *self.host.prefix,
            *(["chroot", str(self._root)] if self._root != Path("/") else []),
            self._program,
            "--no-defaults",
            "--user=root",
            f"--datadir={data}/data",
            f"--socket={data}/socket",
            f"--pid-file={data}/pid",
            f"--tmpdir={data}",
            f"--port={self.port}",
            f"--bind-address={self.host.address}",
            "--mysqlx=OFF",
            "--secure-file-priv=NULL",
        ]

    def _initialise(self) -> None:
        self._install(self._folder / "data")
