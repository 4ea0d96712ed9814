"""A cheap HTTPS receiver in a process of its own: reads a request, answers 200, keeps the connection."""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Receiver(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = 0
            for line in self._buffer[:end].split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(RESPONSE)


async def _serve(certificate: str, ready: Connection) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0, ssl=context, backlog=1024)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(certificate: str, ready: Connection) -> None:
    asyncio.run(_serve(certificate, ready))


@contextmanager
def receiver(certificate: Path) -> Iterator[str]:
    """Serves while entered; yields its URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(str(certificate), theirs), daemon=True)
    process.start()
    try:
        yield f"https://127.0.0.1:{ours.recv()}/hook"
    finally:
        process.terminate()
        process.join()
