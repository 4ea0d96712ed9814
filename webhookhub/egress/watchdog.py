"""Closes a connection that libcurl would never stop reading from.

An endpoint may send TLS records without data, such as session tickets, as fast as they are read. OpenSSL reads on while
there are any: the call into libcurl does not return, and its timeouts are not checked.
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

# A connection is closed at the third check that finds libcurl in the same call.
CHECK_SECONDS = 0.25
# Far more than the largest response that is allowed, with headers and TLS overhead.
MAX_BYTES = 512 * 1024
# The number of known sockets at which closed ones are removed.
PRUNE_AT = 1000

BYTES_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received in Linux's tcp_info
UNREAD = struct.Struct("=i")


class Watchdog:
    """Watches one engine in a thread, from its first connection until it is closed."""

    def __init__(self) -> None:
        # Odd while a call into libcurl is running; the engine adds 1 before and after.
        self.turn = 0
        # By inode: pycurl duplicates the socket, and does not say when it closes the duplicate.
        self._inodes: set[int] = set()
        self._prune_at = PRUNE_AT
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, connection: socket.socket) -> None:
        """Watch a socket that libcurl is going to use."""
        if sys.platform != "linux":
            return  # other systems do not report the bytes that a connection has received
        if len(self._inodes) >= self._prune_at:
            self._inodes &= {inode for _, inode in _sockets()}
            self._prune_at = max(PRUNE_AT, 2 * len(self._inodes))
        self._inodes.add(os.fstat(connection.fileno()).st_ino)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="egress watchdog", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        seen = 0
        before: dict[int, int] = {}
        while not self._closing.wait(CHECK_SECONDS):
            turn = self.turn
            if turn == seen and turn % 2:
                before = self._check(before)
            else:
                seen, before = turn, {}

    def _check(self, before: dict[int, int]) -> dict[int, int]:
        """Close connections that have delivered too much since the first check; returns the bytes read by then."""
        first = dict(before)
        for inode, connection in self._connections():
            # An error means closed, or not connected yet.
            with contextlib.suppress(OSError), connection:
                read = _bytes_read(connection)
                if read - first.setdefault(inode, read) > MAX_BYTES:
                    connection.shutdown(socket.SHUT_RDWR)
        return first

    def _connections(self) -> Iterator[tuple[int, socket.socket]]:
        """Duplicates, because libcurl may close its own at any time and the descriptor be reused."""
        for descriptor, inode in _sockets():
            if inode in self._inodes:
                with contextlib.suppress(OSError):
                    connection = socket.socket(fileno=os.dup(descriptor))
                    if os.fstat(connection.fileno()).st_ino == inode:
                        yield inode, connection


def _sockets() -> Iterator[tuple[int, int]]:
    """The descriptor and the inode of every socket of this process."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:["):
                yield int(name), int(link[8:-1])


def _bytes_read(connection: socket.socket) -> int:
    """Bytes received and read: grows only for the connection that libcurl is reading."""
    [received] = BYTES_RECEIVED.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_RECEIVED.size))
    [unread] = UNREAD.unpack(fcntl.ioctl(connection, termios.FIONREAD, UNREAD.pack(0)))
    return int(received - unread)
