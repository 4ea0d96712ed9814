"""Notifications reach the loops of a kind, and never cause an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from webhookhub.runner.backoff import SHORTEST_SECONDS, Backoff
from webhookhub.runner.notifier import MAX_PROCESSES, Notifications, notify

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def notifications() -> Iterator[Notifications]:
    new = Notifications("worker")
    yield new
    new.close()


def test_a_notification_is_received_once(notifications: Notifications):
    assert not notifications.received()
    notify("worker")
    notify("worker")
    assert notifications.received()
    assert not notifications.received()


def test_a_notification_for_another_kind_is_not_received(notifications: Notifications):
    notify("router")
    assert not notifications.received()


def test_a_notification_for_another_database_is_not_received(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(connection.settings_dict, "NAME", "another")
        other = Notifications("worker")
    notify("worker")
    assert not other.received()
    other.close()


def test_a_notification_is_sent_after_the_commit(notifications: Notifications):
    with transaction.atomic():
        notify("worker")
        assert not notifications.received()
    assert notifications.received()


def test_a_rollback_sends_no_notification(notifications: Notifications):
    with transaction.atomic():
        notify("worker")
        transaction.set_rollback(True)
    assert not notifications.received()


def test_all_loops_of_a_kind_up_to_the_limit_are_notified():
    receivers = [Notifications("worker") for _ in range(MAX_PROCESSES + 1)]
    try:
        notify("worker")
        assert [each.received() for each in receivers] == [True] * MAX_PROCESSES + [False]
    finally:
        for each in receivers:
            each.close()


def test_a_free_address_is_used_again():
    Notifications("worker").close()
    again = Notifications("worker")
    notify("worker")
    assert again.received()
    again.close()


def test_missing_and_full_sockets_are_no_errors(notifications: Notifications):
    notify("router")
    for _ in range(1_000):
        notify("worker")
    assert notifications.received()
    assert not notifications.received()


def test_waits_grow_while_idle_and_are_short_again_after_work():
    backoff = Backoff(0.5)
    waits = [backoff.after(0.0) for _ in range(30)]
    assert waits[0] <= SHORTEST_SECONDS * 1.25
    assert all(0.5 * 0.75 <= wait <= 0.5 * 1.25 for wait in waits[-10:])
    assert sum(waits[:8]) < 1.0, "a short lull causes no long wait"
    backoff.reset()
    assert backoff.after(0.0) <= SHORTEST_SECONDS * 1.25


def test_a_wait_is_at_least_as_long_as_the_poll():
    assert Backoff(0.5).after(0.2) >= 0.2 * 0.75


def test_a_wait_exceeds_the_interval_only_by_its_jitter():
    assert Backoff(0.5).after(30.0) <= 0.5 * 1.25
    assert Backoff(0.001).after(0.0) <= 0.001 * 1.25
