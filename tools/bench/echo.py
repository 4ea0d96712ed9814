"""A cheap HTTPS receiver in a process of its own, with settable delay and failures, that remembers what came when."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tools.bench.echo_loop import serve

PATH = "/hook"


class Arrival(NamedTuple):
    """When (on the machine's monotonic clock), at which port, and which message."""

    at: float
    port: int
    message_id: str


@dataclass(frozen=True)
class Gauge:
    answered: int
    failed: int
    held: int


class Echo:
    """The parent's side of a running receiver."""

    def __init__(self, pid: int, ports: list[int], control: Connection) -> None:
        self.pid = pid
        self.ports = ports
        self._control = control

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """One for each port: to those who send, each is a receiver of its own."""
        return [f"https://127.0.0.1:{port}{PATH}" for port in self.ports]

    def behave(self, *, delay: float = 0.0, failures: float = 0.0) -> None:
        """From now on answer after `delay` seconds, and 500 to the share `failures` of the requests."""
        self._ask("behave", delay, failures)

    def gauge(self) -> Gauge:
        """What has been answered with success and with failure since the last `take`, and what waits for its answer."""
        return Gauge(*self._ask("gauge"))  # type: ignore[misc]

    def take(self) -> list[Arrival]:
        """What was answered with success since the last time, in order."""
        return [Arrival(at, port, message_id.decode()) for at, port, message_id in self._ask("take")]  # type: ignore[attr-defined]

    def _ask(self, *question: object) -> object:
        self._control.send(question)
        return self._control.recv()


@contextmanager
def receiver(certificate: Path, ports: int = 1) -> Iterator[Echo]:
    """Serves while entered."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(str(certificate), ports, theirs), daemon=True)
    process.start()
    theirs.close()  # so that the end of either side is seen by the other
    try:
        numbers = ours.recv()
        assert process.pid is not None
        yield Echo(process.pid, numbers, ours)
    finally:
        process.terminate()
        process.join()
