"""When a process counts as silent."""

from __future__ import annotations

from datetime import timedelta

from webhookhub.conf import hub

MISSED_BEATS = 6
# A process beats between two steps, and a statement may wait this long.
LEAST_SILENCE = timedelta(seconds=20)


def silence() -> timedelta:
    """How long nothing is heard of a process before it is no longer taken for running."""
    return max(hub().heartbeat * MISSED_BEATS, LEAST_SILENCE)
