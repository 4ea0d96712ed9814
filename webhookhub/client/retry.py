"""How long to go on trying, and how long to wait in between."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


class Patience:
    """The time that one call may take, retries included."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._tries = 0

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def wait(self, asked: float | None) -> bool:
        """Wait before the next try, at least as long as the hub asked; False, at once, if there is no time for that."""
        seconds = max(pause(self._tries), asked or 0.0)
        self._tries += 1
        if seconds >= self.left:
            return False
        time.sleep(seconds)
        return True


def pause(tries: int) -> float:
    """Doubling, and with jitter: producers that failed together do not come back together."""
    longest: float = min(FIRST_PAUSE_SECONDS * 2 ** min(tries, 30), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311


def retry_after(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, which may also name a moment; None if it says nothing."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
