"""Notifies the steps of a kind that there may be work, so that they need not wait for their next poll.

Only a hint, within a process or between processes of one machine. A lost notification only means that the step finds
the work at its next poll, and a needless one costs one poll: the database alone knows what there is to do.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import struct
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from .hints import FEW, MAX_ID

# Processes of one kind on one machine that get notifications; further ones only poll.
MAX_PROCESSES = 8
# What the ids of a notification are.
TOPICS = ("events", "deliveries", "attempts", "results")
MAX_IDS = 1000
ID_BYTES = 8
MAX_BYTES = 1 + MAX_IDS * ID_BYTES
PLAIN = b"!"
# Read at once, so that a sender cannot keep a process busy with its notifications alone.
MAX_READ = 64
# The system drops further notifications to a socket with so many unread ones.
QUEUE_LENGTH_FILE = Path("/proc/sys/net/unix/max_dgram_qlen")
DEFAULT_QUEUE_LENGTH = 10
# How long an address without a process is tried only after the others.
ABSENT_SECONDS = 1.0
# Ids that found all queues full go before the next notification; of more than this, the oldest are left to polling.
MAX_HELD_BACK = 200


class Hint(NamedTuple):
    """`ids` are rows of `topic`; without ids, any row may be ready."""

    topic: str = ""
    ids: Sequence[int] = ()


class Hintable(Protocol):
    def hint(self, topic: str, ids: Sequence[int]) -> None: ...


# The steps that this process's loop runs, by their kind.
steps_of_this_process: dict[str, Hintable] = {}
_own_addresses: set[bytes] = set()
# The index of the next address to notify, by kind.
_next_index: dict[str, int] = {}
_absent_until: dict[bytes, float] = {}
_held_back: dict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=MAX_HELD_BACK))
_sender: tuple[int, socket.socket] | None = None


class Notifications:
    """Receives the notifications for the steps of one kind in this process."""

    def __init__(self, kind: str) -> None:
        self._socket: socket.socket | None = None
        self._address = b""
        with suppress(OSError):  # a system without such sockets
            self._socket = _new_socket()
            self._bind(self._socket, kind)

    def fileno(self) -> int | None:
        """Becomes readable with a notification; None where there are none."""
        return None if self._socket is None else self._socket.fileno()

    def received(self) -> list[Hint]:
        """The notifications since the last call."""
        hints: list[Hint] = []
        if self._socket is not None:
            with suppress(BlockingIOError):
                while len(hints) < MAX_READ:
                    hints.append(_decoded(self._socket.recv(MAX_BYTES + 1)))
        if len(hints) >= min(_queue_length(), MAX_READ):
            hints.append(Hint())  # others may have been dropped
        return hints

    def close(self) -> None:
        _own_addresses.discard(self._address)
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
                self._address = address
                _own_addresses.add(address)
                return


def notify(kind: str, topic: str = "", ids: Sequence[int] = ()) -> None:
    """Notifies the steps of this kind once the caller's transaction is committed.

    `ids` are rows of `topic` that may be ready for them. A step of this kind in this process gets them directly.
    """
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        transaction.on_commit(lambda: _notify(kind, topic, ids))
    else:
        _notify(kind, topic, ids)


def _notify(kind: str, topic: str, ids: Sequence[int]) -> None:
    if not 0 < len(ids) <= FEW:
        for part in _parts(ids, MAX_IDS):
            _notify_one(kind, topic, part)
        return
    # In parts that are few: bulk would be overtaken.
    held_back = _held_back[kind, topic]
    unsent = [*held_back, *ids]
    held_back.clear()
    for part in _parts(unsent, FEW):
        if not _notify_one(kind, topic, part):
            held_back.extend(unsent)
            return
        del unsent[: len(part)]


def _notify_one(kind: str, topic: str, ids: Sequence[int]) -> bool:
    """Notifies one process of this kind, each in turn; this process may be one of them.

    False if all queues are full.
    """
    step = steps_of_this_process.get(kind)
    sender, addresses, data = _sender_of_this_process(), _addresses(kind), _encoded(topic, ids)
    now, first, is_full = time.monotonic(), _next_index.get(kind, 0), False

    def is_absent(index: int) -> bool:
        return _absent_until.get(addresses[index % MAX_PROCESSES], 0.0) > now

    # Where there was no process lately comes last: each attempt costs a system call.
    for index in sorted(range(first, first + MAX_PROCESSES), key=is_absent):
        address = addresses[index % MAX_PROCESSES]
        if address in _own_addresses and step is not None:
            step.hint(topic, ids)
        elif sender is None:
            continue
        else:
            try:
                sender.sendto(data, address)
            except BlockingIOError:  # its queue is full
                is_full = True
                continue
            except OSError:  # no process there
                _absent_until[address] = now + ABSENT_SECONDS
                continue
        _next_index[kind] = (index + 1) % MAX_PROCESSES
        return True
    if step is not None:
        step.hint(topic, ids)
        return True
    return not is_full


def _parts(ids: Sequence[int], size: int) -> list[Sequence[int]]:
    return [ids[start : start + size] for start in range(0, len(ids) or 1, size)]


def _encoded(topic: str, ids: Sequence[int]) -> bytes:
    if topic not in TOPICS or not ids:
        return PLAIN
    return struct.pack(f"!B{len(ids)}Q", TOPICS.index(topic), *ids)


def _decoded(data: bytes) -> Hint:
    """Any local user can send here: data of another form is a notification without ids."""
    ids_count, rest = divmod(len(data) - 1, ID_BYTES)
    if rest or not 1 <= ids_count <= MAX_IDS or data[0] >= len(TOPICS):
        return Hint()
    topic, *ids = struct.unpack(f"!B{ids_count}Q", data)
    return Hint(TOPICS[topic], ids) if min(ids) > 0 and max(ids) <= MAX_ID else Hint()


def _sender_of_this_process() -> socket.socket | None:
    global _sender
    if _sender is None or _sender[0] != os.getpid():
        try:
            _sender = os.getpid(), _new_socket()
        except OSError:
            return None  # no file descriptor left; the steps poll
    return _sender[1]


def _new_socket() -> socket.socket:
    new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    new.setblocking(False)
    return new


def _addresses(kind: str) -> tuple[bytes, ...]:
    settings = connections[DEFAULT_DB_ALIAS].settings_dict
    return _names(kind, settings["HOST"], settings["PORT"], settings["NAME"])


# Cached: every publish needs them.
@cache
def _names(kind: str, *database: object) -> tuple[bytes, ...]:
    """Abstract addresses (a leading NUL byte): no files, and they disappear with their process."""
    hub = hashlib.sha256("|".join(map(str, database)).encode()).hexdigest()[:16]
    return tuple(f"\0webhookhub/{hub}/{kind}/{index}".encode() for index in range(MAX_PROCESSES))


@cache
def _queue_length() -> int:
    try:
        return int(QUEUE_LENGTH_FILE.read_text())
    except (OSError, ValueError):
        return DEFAULT_QUEUE_LENGTH
