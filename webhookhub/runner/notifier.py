"""Notifies the loops of a kind that there may be work, so that they need not wait for their next poll.

Only a hint between processes of one machine. A lost notification only means that the loop finds the work at its next
poll, and a needless one costs one poll: the database alone knows what there is to do.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from django.db import connection, transaction

from .step import Step

# Loops of one kind on one machine that get notifications; further ones only poll.
MAX_PROCESSES = 8
# The steps that this process's loop runs, by their kind.
steps_of_this_process: dict[str, Step] = {}
_sender: tuple[int, socket.socket] | None = None


class Notifications:
    """Receives the notifications for one loop."""

    def __init__(self, kind: str) -> None:
        self._socket: socket.socket | None = None
        with suppress(OSError):  # a system without such sockets
            self._socket = _new_socket()
            self._bind(self._socket, kind)

    def fileno(self) -> int | None:
        """Becomes readable with a notification; None where there are none."""
        return None if self._socket is None else self._socket.fileno()

    def received(self) -> bool:
        """Whether there was a notification since the last call."""
        received = False
        if self._socket is not None:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(1)
                    received = True
        return received

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _bind(self, unbound: socket.socket, kind: str) -> None:
        for address in _addresses(kind):
            try:
                unbound.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return


def notify(kind: str, topic: str = "", ids: Sequence[int] = ()) -> None:
    """Notifies the loops of this kind once the caller's transaction is committed.

    `ids` are rows of `topic` that may be ready for them. A step of this kind in this process gets them directly.
    """
    transaction.on_commit(lambda: _notify(kind, topic, ids))


def _notify(kind: str, topic: str, ids: Sequence[int]) -> None:
    step = steps_of_this_process.get(kind)
    if step is None:
        _send(kind)
    else:
        step.hint(topic, ids)


def _send(kind: str) -> None:
    global _sender
    if _sender is None or _sender[0] != os.getpid():
        try:
            _sender = os.getpid(), _new_socket()
        except OSError:
            return  # no file descriptor left; the loops poll
    for address in _addresses(kind):
        with suppress(OSError):  # no process there, or its buffer is full
            _sender[1].sendto(b"!", address)


def _new_socket() -> socket.socket:
    new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    new.setblocking(False)
    return new


def _addresses(kind: str) -> tuple[bytes, ...]:
    settings = connection.settings_dict
    return _names(kind, "|".join(str(settings[part]) for part in ("HOST", "PORT", "NAME")))


# Cached: every publish needs them.
@cache
def _names(kind: str, database: str) -> tuple[bytes, ...]:
    """Abstract addresses (a leading NUL byte): no files, and they disappear with their process."""
    hub = hashlib.sha256(database.encode()).hexdigest()[:16]
    return tuple(f"\0webhookhub/{hub}/{kind}/{index}".encode() for index in range(MAX_PROCESSES))
