"""How long the client waits, and when it gives up."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from webhookhub.client.retry import LONGEST_PAUSE_SECONDS, Patience, pause, retry_after


def test_pauses_double_up_to_a_bound_and_are_never_quite_the_same():
    for tries, longest in enumerate([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]):
        seen = {pause(tries) for _ in range(50)}
        assert len(seen) > 1
        assert longest / 2 <= min(seen) <= max(seen) <= longest
    assert pause(10**6) <= LONGEST_PAUSE_SECONDS


@pytest.mark.parametrize(("header", "seconds"), [(None, None), ("7", 7.0), (" 0 ", 0.0), ("soon", None), ("-1", None)])
def test_a_retry_after_is_read_in_seconds(header: str | None, seconds: float | None):
    assert retry_after(header) == seconds


def test_a_retry_after_may_name_a_moment():
    moment = datetime.now(UTC) + timedelta(seconds=60)
    assert 55 < (retry_after(format_datetime(moment, usegmt=True)) or 0) <= 60
    assert retry_after(format_datetime(moment - timedelta(hours=1), usegmt=True)) == 0


def test_whoever_asks_for_more_time_than_there_is_is_not_waited_for():
    patience = Patience(50)
    started = time.monotonic()
    assert not patience.wait(100)
    assert time.monotonic() - started < 30
