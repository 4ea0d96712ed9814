"""Password hashing, bounded: visitors who are not logged in cannot use up a core or the web server's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from django.contrib.auth.hashers import Argon2PasswordHasher

# Hashing in parallel only shares the cores. A few requests may wait for it; each occupies a thread of the web server.
PARALLEL = 1
WAITING = 4
WAIT_SECONDS = 3.0
# Passwords checked per second in this process, except those from a browser that the user has logged in with before.
PER_SECOND = 5.0
AT_ONCE = 20.0


class Argon2Hasher(Argon2PasswordHasher):
    """argon2id in 19 MB. Django's default takes 100 MB for each hash, more than the whole web server.

    In a thread of its own: the C library keeps this memory for each thread that has used it.
    """

    time_cost = 2
    memory_cost = 19 * 1024
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        return _thread().submit(super().encode, password, salt).result()

    def verify(self, password: str, encoded: str) -> bool:
        return _thread().submit(super().verify, password, encoded).result()


@cache
def _thread() -> ThreadPoolExecutor:
    """Created when it is needed, after the web server has forked."""
    return ThreadPoolExecutor(max_workers=PARALLEL, thread_name_prefix="passwords")


class Busy(Exception):
    """Too many passwords are being checked."""


class _Slots:
    def __init__(self) -> None:
        self._queue = threading.BoundedSemaphore(PARALLEL + WAITING)
        self._hashing = threading.BoundedSemaphore(PARALLEL)
        self._lock = threading.Lock()
        self._left = AT_ONCE
        self._at = time.monotonic()

    @contextmanager
    def slot(self, *, is_known_browser: bool) -> Iterator[None]:
        if not is_known_browser and not self._take():
            raise Busy
        if not self._queue.acquire(blocking=False):
            raise Busy
        try:
            if not self._hashing.acquire(timeout=WAIT_SECONDS):
                raise Busy
            try:
                yield
            finally:
                self._hashing.release()
        finally:
            self._queue.release()

    def _take(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._left = min(AT_ONCE, self._left + (now - self._at) * PER_SECOND)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


slots = _Slots()
