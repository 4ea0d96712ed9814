"""An endpoint in a separate process that sends TLS session tickets without end."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# The longest time that a client has to wait.
LIFETIME_SECONDS = 20


class TicketFlood:
    """A context manager."""

    def __init__(self, certificate: Path) -> None:
        self._command = [sys.executable, "-m", "tests.support.ticket_flood", str(certificate)]

    def __enter__(self) -> TicketFlood:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"https://127.0.0.1:{int(self._process.stdout.readline())}/hook"
        return self

    def __exit__(self, *exception: Any) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


def main() -> None:
    signal.alarm(LIFETIME_SECONDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    context.num_tickets = 2_000_000_000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=_shake_hands, args=(context, plain), daemon=True).start()


def _shake_hands(context: ssl.SSLContext, plain: socket.socket) -> None:
    with contextlib.suppress(OSError):
        context.wrap_socket(plain, server_side=True)


if __name__ == "__main__":
    main()
