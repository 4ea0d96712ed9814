"""Processes of the hub, on the test's own database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.receiver import Receiver, Reply

from .support import Processes, environment


@pytest.fixture
def processes(committed: None, certificate_files: tuple[Path, Path], tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path, environment(certificate_files[0]))
    yield started
    started.end()


@pytest.fixture
def gate(receiver: Receiver) -> Iterator[threading.Event]:
    """The receiver answers only once the gate is open."""
    opened = threading.Event()

    def wait() -> None:
        opened.wait(60)

    receiver.answer = lambda request: Reply(before=wait)
    yield opened
    opened.set()
