"""A word to the next loop that there is something to do, so that it need not wait until it asks by itself.

Only a hint between processes of one machine: what is lost, or never heard because the other runs elsewhere, is found by
asking, and whoever hears one that means nothing has asked once too often. The database alone knows what there is to do.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from contextlib import suppress
from functools import cache

from django.db import connection, transaction

# Loops of one kind on one machine that can be reached; any further ones find their work by asking.
MOST_LISTENERS = 8
_sender: tuple[int, socket.socket] | None = None


class Listener:
    """Where a loop hears that there may be something to do."""

    def __init__(self, kind: str) -> None:
        self._socket: socket.socket | None = None
        with suppress(OSError):  # a system without such sockets
            self._socket = _made()
            self._bind(self._socket, kind)

    def fileno(self) -> int | None:
        """What becomes readable when there is a word; None where nothing can be heard."""
        return None if self._socket is None else self._socket.fileno()

    def heard(self) -> bool:
        """Whether there was a word since the last time."""
        heard = False
        if self._socket is not None:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(1)
                    heard = True
        return heard

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


def notify(kind: str) -> None:
    """Tell the loops of this kind, once what the caller has written can be seen by them."""
    transaction.on_commit(lambda: _tell(kind))


def _tell(kind: str) -> None:
    global _sender
    if _sender is None or _sender[0] != os.getpid():
        try:
            _sender = os.getpid(), _made()
        except OSError:
            return  # no file descriptor left; the others find out by asking
    for address in _addresses(kind):
        with suppress(OSError):  # nobody is there, or has words enough to read
            _sender[1].sendto(b"!", address)


def _made() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _addresses(kind: str) -> tuple[bytes, ...]:
    settings = connection.settings_dict
    return _names(kind, "|".join(str(settings[part]) for part in ("HOST", "PORT", "NAME")))


# Kept: every publish asks for them.
@cache
def _names(kind: str, database: str) -> tuple[bytes, ...]:
    """Without files: a name that begins with a NUL byte is no path, and goes with the process."""
    hub = hashlib.sha256(database.encode()).hexdigest()[:16]
    return tuple(f"\0webhookhub/{hub}/{kind}/{number}".encode() for number in range(MOST_LISTENERS))
