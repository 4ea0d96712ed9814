"""A word to the next loop: heard where it can be, and never in anybody's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from webhookhub.runner.backoff import SHORTEST_SECONDS, Backoff
from webhookhub.runner.notifier import MOST_LISTENERS, Listener, notify

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener("worker")
    yield made
    made.close()


def test_a_word_is_heard_once(listener: Listener):
    assert not listener.heard()
    notify("worker")
    notify("worker")
    assert listener.heard()
    assert not listener.heard()


def test_a_word_to_another_kind_is_not_heard(listener: Listener):
    notify("router")
    assert not listener.heard()


def test_a_word_to_the_loops_of_another_database_is_not_heard(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(connection.settings_dict, "NAME", "another")
        other = Listener("worker")
    notify("worker")
    assert not other.heard()
    other.close()


def test_a_word_is_said_only_when_what_it_is_about_can_be_seen(listener: Listener):
    with transaction.atomic():
        notify("worker")
        assert not listener.heard()
    assert listener.heard()


def test_what_is_rolled_back_is_not_spoken_of(listener: Listener):
    with transaction.atomic():
        notify("worker")
        transaction.set_rollback(True)
    assert not listener.heard()


def test_all_loops_of_a_kind_hear_it_and_one_too_many_does_without():
    listeners = [Listener("worker") for _ in range(MOST_LISTENERS + 1)]
    try:
        notify("worker")
        assert [each.heard() for each in listeners] == [True] * MOST_LISTENERS + [False]
    finally:
        for each in listeners:
            each.close()


def test_a_place_that_becomes_free_is_taken_again():
    Listener("worker").close()
    again = Listener("worker")
    notify("worker")
    assert again.heard()
    again.close()


def test_nobody_there_and_nobody_reading_are_no_errors(listener: Listener):
    notify("router")
    for _ in range(1_000):
        notify("worker")
    assert listener.heard()
    assert not listener.heard()


def test_pauses_grow_in_a_lull_and_are_short_again_after_work():
    pauses = Backoff(0.5)
    waits = [pauses.after(0.0) for _ in range(30)]
    assert waits[0] <= SHORTEST_SECONDS * 1.25
    assert all(0.5 * 0.75 <= wait <= 0.5 * 1.25 for wait in waits[-10:])
    assert sum(waits[:8]) < 1.0, "a short lull is over before anybody has to wait long"
    pauses.reset()
    assert pauses.after(0.0) <= SHORTEST_SECONDS * 1.25


def test_asking_is_never_most_of_what_a_process_does():
    assert Backoff(0.5).after(0.2) >= 0.2 * 0.75


def test_the_interval_is_never_exceeded_by_more_than_its_jitter():
    assert Backoff(0.5).after(30.0) <= 0.5 * 1.25
    assert Backoff(0.001).after(0.0) <= 0.001 * 1.25
