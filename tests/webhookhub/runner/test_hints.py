"""Hints of single rows are kept apart from bulk, and a portion of bulk is short while there are any."""

from __future__ import annotations

import time

import pytest

from webhookhub.runner.hints import FEW, MAX_HINTS, Flag, Hints
from webhookhub.runner.portions import PORTION_SECONDS, REMEMBERED_SECONDS, SMALLEST, Portion

BULK = list(range(1_000, 1_300))


def new() -> tuple[Hints, Flag]:
    flag = Flag()
    flag.take()
    return Hints(flag), flag


def test_single_ids_are_kept_apart_from_bulk():
    hints, _ = new()
    hints.add(BULK)
    assert hints.take_few(500) == []
    hints.add([1])
    hints.add(range(2, 2 + FEW))
    assert hints.has_few
    assert hints.take_few(2) == [1, 2]
    assert hints.take_bulk(3) == BULK[:3]
    assert hints.take(FEW + 1) == [*range(3, 2 + FEW), *BULK[3:5]]
    assert hints.take(500) == BULK[5:]
    assert not hints
    assert hints.take_few(500) == hints.take_bulk(500) == []


def test_too_much_bulk_does_not_displace_single_ids():
    hints, poll_soon = new()
    hints.add([1])
    hints.add(list(range(10, 10 + MAX_HINTS)))
    assert not poll_soon
    hints.add(BULK)
    assert poll_soon.take()
    assert hints.take(500) == [1]


def test_a_notification_without_ids_keeps_the_ids():
    hints, poll_soon = new()
    hints.add([1])
    hints.add([])
    assert poll_soon
    assert hints.take(500) == [1]


def test_an_id_is_taken_once():
    hints, _ = new()
    hints.add(BULK)
    hints.add([BULK[0]])
    assert hints.take(10) == BULK[:9]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def run(portion: Portion, clock: Clock, batch_size: int, seconds_per_row: float) -> int:
    def work(limit: int) -> int:
        clock.now += limit * seconds_per_row
        return limit

    return portion.run(batch_size, work)


def test_a_portion_is_a_whole_batch_while_there_is_bulk_only(clock: Clock):
    hints, _ = new()
    hints.add(BULK)
    assert run(Portion(hints), clock, 500, 0.001) == 500


def test_while_rows_come_one_by_one_a_portion_has_as_many_rows_as_fit_into_its_time(clock: Clock):
    hints, _ = new()
    portion = Portion(hints)
    hints.add([1])
    clock.now = hints.few_at
    for _ in range(20):
        rows = run(portion, clock, 500, PORTION_SECONDS / 100)
        clock.now = hints.few_at
    assert 90 <= rows <= 100
    for _ in range(20):
        rows = run(portion, clock, 500, PORTION_SECONDS)
        clock.now = hints.few_at
    assert rows == SMALLEST
    assert run(portion, clock, 10, 0.001) == 10
    clock.now = hints.few_at + 2 * REMEMBERED_SECONDS
    assert run(portion, clock, 500, 0.001) == 500
