"""Waiting for something to become so, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120.0


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.2)
