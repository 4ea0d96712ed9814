"""When an event happened, as far as its own word can be believed.

Whoever may insert into `events` by SQL can give it any time, or none that can be read. A deadline counted from the year
9999 never passes, and one from the year 1 has passed before anybody could act.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# No hub is older, and no producer's clock is further ahead.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)


def believed(at: datetime | None, now: datetime) -> datetime:
    """The event's own time; or the present, where it has none or an impossible one.

    What is believed is kept with the fact, so that the same facts fold to the same state at any later time.
    """
    return at if at is not None and EARLIEST <= at <= now + AHEAD else now
