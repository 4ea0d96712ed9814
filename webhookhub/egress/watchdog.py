"""Cuts off the connection that libcurl would never stop reading from.

A receiver may send TLS records that carry nothing for the reader, session tickets for one, as fast as they are read.
OpenSSL goes on reading for as long as there are any: libcurl does not come back, and no time-out of its own runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
import termios
import threading
from collections.abc import Iterator

# A connection is cut off at the third look that finds libcurl at the same piece of work.
LOOK_SECONDS = 0.25
# Far more than the largest answer that is permitted, headers, wrapping and all.
TOO_MUCH_BYTES = 512 * 1024
# How many connections are remembered before those that are closed by now are forgotten.
FORGET_AT = 1000

BYTES_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received in Linux's tcp_info
UNREAD = struct.Struct("=i")


class Watchdog:
    """Watches the work of one engine in a thread of its own, from the first connection until it is closed."""

    def __init__(self) -> None:
        # Odd while libcurl is at work; its owner counts it up before and after.
        self.turn = 0
        # By inode, which outlives neither the connection nor keeps it open: pycurl goes on with a duplicate of the
        # socket that it is given, and nobody tells when that is closed.
        self._made: set[int] = set()
        self._forget_at = FORGET_AT
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, made: socket.socket) -> None:
        """A socket that libcurl is going to use."""
        if sys.platform != "linux":
            return  # others do not tell how much a connection has received
        if len(self._made) >= self._forget_at:
            self._made &= {inode for _, inode in _sockets()}
            self._forget_at = max(FORGET_AT, 2 * len(self._made))
        self._made.add(os.fstat(made.fileno()).st_ino)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="egress watchdog", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        seen = 0
        before: dict[int, int] = {}
        while not self._closing.wait(LOOK_SECONDS):
            turn = self.turn
            if turn == seen and turn % 2:
                before = self._look(before)
            else:
                seen, before = turn, {}

    def _look(self, before: dict[int, int]) -> dict[int, int]:
        """Cut off what has been read too much from since it was first looked at; how much had been read by then."""
        first = dict(before)
        for inode, connection in self._connections():
            # Closed meanwhile, or not connected yet.
            with contextlib.suppress(OSError), connection:
                read = _bytes_read(connection)
                if read - first.setdefault(inode, read) > TOO_MUCH_BYTES:
                    connection.shutdown(socket.SHUT_RDWR)
        return first

    def _connections(self) -> Iterator[tuple[int, socket.socket]]:
        """Duplicates, for libcurl may close its own at any moment and the number be given to another file."""
        for descriptor, inode in _sockets():
            if inode in self._made:
                with contextlib.suppress(OSError):
                    connection = socket.socket(fileno=os.dup(descriptor))
                    if os.fstat(connection.fileno()).st_ino == inode:
                        yield inode, connection


def _sockets() -> Iterator[tuple[int, int]]:
    """Every socket of this process: its descriptor and its inode."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:["):
                yield int(name), int(link[8:-1])


def _bytes_read(connection: socket.socket) -> int:
    """What has come in without what lies there unread: only what libcurl is busy with grows."""
    [received] = BYTES_RECEIVED.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_RECEIVED.size))
    [unread] = UNREAD.unpack(fcntl.ioctl(connection, termios.FIONREAD, UNREAD.pack(0)))
    return int(received - unread)
