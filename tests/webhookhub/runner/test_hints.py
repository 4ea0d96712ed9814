"""Hints of single rows overtake bulk, and short turns share their time."""

from __future__ import annotations

from webhookhub.runner.hints import FEW, MAX_HINTS, SHARED_BATCH, Flag, Hints, batch_beside

BULK = list(range(1_000, 1_000 + 2 * SHARED_BATCH + FEW))


def new() -> tuple[Hints, Flag]:
    flag = Flag()
    flag.take()
    return Hints(flag), flag


def test_single_ids_overtake_bulk_in_a_short_turn():
    hints, _ = new()
    hints.add(BULK)
    hints.add([1])
    hints.add([2])
    assert hints.take(500) == [1, 2, *BULK[: SHARED_BATCH - 2]]
    assert hints.take(500) == BULK[SHARED_BATCH - 2 :]
    assert hints.take(500) == []


def test_bulk_alone_is_taken_in_full_batches():
    hints, _ = new()
    hints.add(BULK)
    assert hints.take(250) == BULK[:250]


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


def test_a_turn_with_few_hints_polls_for_a_short_batch():
    assert batch_beside([], 500) == 500
    assert batch_beside([1], 500) == SHARED_BATCH
    assert batch_beside([1], 10) == 10
    assert batch_beside(BULK, 500) == 500
