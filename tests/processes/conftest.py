"""Processes of the hub on the test's database."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.demo.endpoint import HttpsEndpoint, Reply

from .support import Processes, environment


@pytest.fixture
def processes(committed: None, certificate_files: tuple[Path, Path], tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path, environment(certificate_files[0]))
    yield started
    started.end()


@pytest.fixture
def gate(endpoint: HttpsEndpoint) -> Iterator[threading.Event]:
    """The endpoint responds only after the event is set."""
    opened = threading.Event()

    def wait() -> None:
        opened.wait(600)

    endpoint.respond = lambda request: Reply(before=wait)
    yield opened
    opened.set()


@pytest.fixture(scope="session", autouse=True)
def _default_signals() -> None:
    """As in a terminal: under nohup or in a script's background, every child would inherit ignored signals."""
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
