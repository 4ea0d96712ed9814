"""Notifications reach the loops of a kind, and never cause an error."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from django.db import connection, transaction

from tests.processes.support import until
from webhookhub.runner import notifier
from webhookhub.runner.backoff import SHORTEST_SECONDS, Backoff
from webhookhub.runner.hints import FEW
from webhookhub.runner.notifier import (
    MAX_HELD_BACK,
    MAX_IDS,
    MAX_PROCESSES,
    TOPICS,
    Hint,
    Notifications,
    _addresses,
    notify,
    steps_of_this_process,
)
from webhookhub.runner.step import Step

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def notifications() -> Iterator[Notifications]:
    notifier._held_back.clear()
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


def test_the_processes_of_a_kind_up_to_the_limit_are_notified_in_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notifier, "_absent_until", {})  # addresses that a test before has found without a process
    receivers = [Notifications("worker") for _ in range(MAX_PROCESSES + 1)]
    try:
        for _ in range(MAX_PROCESSES):
            notify("worker", "attempts", [1, 2])
        assert [each.received() for each in receivers] == [[Hint("attempts", [1, 2])]] * MAX_PROCESSES + [[]]
    finally:
        for each in receivers:
            each.close()


def read_all(notifications: Notifications) -> list[Hint]:
    """The queue may be longer than what is read at once."""
    hints: list[Hint] = []
    while more := notifications.received():
        hints += more
    return hints


def test_a_process_whose_queue_is_full_is_passed_over():
    receivers = [Notifications("worker") for _ in range(2)]
    try:
        for _ in range(1_000):
            notify("worker")
        assert read_all(receivers[0])
        notify("worker", "attempts", [7])
        notify("worker", "attempts", [8])
        # On systems with long queues, the other one may have room for the second.
        received = [hint for each in receivers for hint in read_all(each)]
        assert sorted(list(ids) for _, ids in received if ids) == [[7], [8]]
    finally:
        for each in receivers:
            each.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_ids_are_received(notifications: Notifications, topic: str):
    notify("worker", topic, [1, 2**63 - 1])
    notify("worker", topic)
    assert notifications.received() == [Hint(topic, [1, 2**63 - 1]), Hint()]


def test_many_ids_are_sent_in_parts(notifications: Notifications):
    ids = list(range(1, 2 * MAX_IDS + 6))
    notify("worker", "attempts", ids)
    hints = notifications.received()
    assert [len(hint.ids) for hint in hints] == [MAX_IDS, MAX_IDS, 5]
    assert [number for hint in hints for number in hint.ids] == ids


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"!",
        b"\0",
        b"\0" + bytes(7),
        b"\0" + bytes(8),  # there is no row 0
        b"\4" + struct.pack("!Q", 1),  # no such topic
        b"\0" + struct.pack("!Q", 2**63),
        b"\0" + struct.pack("!QQ", 1, 0),
        b"\0" + struct.pack("!Q", 1) + b"x",
        b"\0" + struct.pack("!Q", 1) * (MAX_IDS + 1),
        b"\0" + struct.pack("!Q", 1) * (MAX_IDS + 1000),  # longer than what is read
        b"events 1; DROP TABLE events",
    ],
)
def test_data_of_another_form_is_a_notification_without_ids(notifications: Notifications, data: bytes):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as anyone:
        anyone.sendto(data, _addresses("worker")[0])
    assert notifications.received() == [Hint()]


def test_a_step_of_this_process_gets_the_ids_directly(notifications: Notifications, monkeypatch: pytest.MonkeyPatch):
    got: list[Hint] = []

    class Local(Step):
        def hint(self, topic: str, ids: Sequence[int]) -> None:
            got.append(Hint(topic, ids))

    monkeypatch.setitem(steps_of_this_process, "worker", Local())
    notify("worker", "attempts", [3])
    notify("worker")
    assert got == [Hint("attempts", [3]), Hint()]
    assert notifications.received() == []


def test_a_full_queue_makes_the_receiver_look_for_more(notifications: Notifications):
    for number in range(1_000):
        notify("worker", "attempts", [number + 1])
    hints = notifications.received()
    assert len(hints) < 1_000
    assert hints[-1] == Hint()


def test_ids_that_found_the_queue_full_go_before_the_next_notification(notifications: Notifications):
    for number in range(1, 1_000):
        notify("worker", "attempts", [number])
    first = read_all(notifications)
    received: list[Hint] = []
    for number in (1_000, 1_001):
        notify("worker", "attempts", [number])
        received += read_all(notifications)
    assert [pk for hint in received for pk in hint.ids] == list(range(1_000 - MAX_HELD_BACK, 1_002))
    assert all(len(hint.ids) <= FEW for hint in received), "bulk would be overtaken"
    assert first[0] == Hint("attempts", [1])


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
    until(lambda: not notifications.received(), "all are read")


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
