"""Database servers on the hosts of a network."""

from __future__ import annotations

from pathlib import Path

from tools.support.database_server import PrivateServer
from tools.support.network import Host, end_with_parent
from tools.torture.database import DURABLE

PORT = 3306


class HostServer(PrivateServer):
    """A server that listens on the address of its host, and ends with the thread that started it."""

    before_exec = staticmethod(end_with_parent)

    def __init__(self, host: Host, options: tuple[str, ...] = DURABLE) -> None:
        super().__init__((*options, f"--bind-address={host.address}"))
        self.host = host
        self.port = PORT

    @property
    def socket(self) -> Path:
        return self._folder / "socket"

    def url(self, database: str = "webhookhub") -> str:
        return f"mysql://hub:hub@{self.host.address}:{self.port}/{database}"

    def _command(self) -> list[str]:
        return [*self.host.prefix, *super()._command()]
