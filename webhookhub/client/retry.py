"""How long to retry, and how long to wait between attempts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 10.0


class Deadline:
    """The time that one call may take, including retries."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._retries = 0

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def wait(self, retry_after: float | None) -> bool:
        """Wait before the next attempt; returns False at once if there is not enough time left."""
        seconds = max(backoff(self._retries), retry_after or 0.0)
        self._retries += 1
        if seconds >= self.left:
            return False
        time.sleep(seconds)
        return True


def backoff(retries: int) -> float:
    """Exponential, with jitter: producers that failed together do not return together."""
    delay: float = min(FIRST_DELAY_SECONDS * 2 ** min(retries, 30), MAX_DELAY_SECONDS)
    return delay * random.uniform(0.5, 1.0)  # noqa: S311


def parse_retry_after(header: str | None) -> float | None:
    """The seconds of a Retry-After header, which may also be a date; None if it is neither."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
