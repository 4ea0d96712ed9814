"""Waits for a condition, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120.0


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"timeout after {seconds:g} s: {what}")
        time.sleep(0.2)
