"""Requests that are in flight together share a statement, and each gets its own results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection

from events.errors import EventConflict, InvalidEvent
from events.group_commit import GroupCommit, Interrupted
from events.intake import PIECE_CHARACTERS, PIECE_ROWS, NewEvent, Published, publish_many
from events.models import Event
from events.payloads import Document

SECONDS = 30.0


def new(number: int, payload: str = "1") -> NewEvent:
    return NewEvent("a.b", Document(payload), "shop", str(number))


class Store:
    """Returns each event as its result. The first call waits until the test lets it continue."""

    def __init__(self, fail: Callable[[Sequence[NewEvent]], None] = lambda events: None) -> None:
        self.calls: list[list[Any]] = []
        self.started, self.may_continue = threading.Event(), threading.Event()
        self._fail = fail

    def __call__(self, events: Sequence[NewEvent]) -> Any:
        self.calls.append([event.external_id for event in events])
        if len(self.calls) == 1:
            self.started.set()
            assert self.may_continue.wait(SECONDS)
        self._fail(events)
        return list(events)


def in_flight(commit: GroupCommit, store: Store, requests: Sequence[Sequence[NewEvent]]) -> list[Future[Any]]:
    """Sends the first request, the others while it is stored, and returns when all are done."""
    with ThreadPoolExecutor(len(requests)) as pool:
        futures = [pool.submit(commit.publish, requests[0])]
        assert store.started.wait(SECONDS)
        for number, request in enumerate(requests[1:], start=1):
            futures.append(pool.submit(commit.publish, request))
            while len(commit._waiting) < number:
                assert not futures[-1].done()
        store.may_continue.set()
    return futures


def test_requests_that_wait_share_the_next_call_and_get_their_own_results():
    store = Store()
    requests = [[new(0)], [new(1)], [new(2), new(3)], [], [new(4)]]

    futures = in_flight(GroupCommit(store), store, requests)

    assert [future.result() for future in futures] == requests
    assert store.calls == [["0"], ["1", "2", "3", "4"]]


def test_a_single_request_is_stored_at_once_by_its_own_thread():
    threads = []

    def store(events: Sequence[NewEvent]) -> Any:
        threads.append(threading.current_thread())
        return list(events)

    commit: Any = GroupCommit(store)

    assert [commit.publish([new(n)]) for n in range(3)] == [[new(n)] for n in range(3)]
    assert set(threads) == {threading.current_thread()}


@pytest.mark.parametrize(
    "requests",
    [
        [[new(0)], [new(1)] * (PIECE_ROWS - 1), [new(2)], [new(3)]],
        [[new(0)], [new(1, "1" * (PIECE_CHARACTERS - 1))], [new(2)], [new(3)]],
        [[new(0)], [new(1)] * (PIECE_ROWS + 100), [new(3)]],
    ],
    ids=["rows", "characters", "large"],
)
def test_a_call_is_bounded(requests: Sequence[Sequence[NewEvent]]):
    store = Store()

    futures = in_flight(GroupCommit(store), store, requests)

    assert [future.result() for future in futures] == requests
    *_, together, last = store.calls
    assert (set(together), last) in (({"1", "2"}, ["3"]), ({"1"}, ["3"]))


def test_an_error_of_one_request_does_not_fail_the_others():
    def fail(events: Sequence[NewEvent]) -> None:
        if any(event.external_id == "2" for event in events):
            raise DataError(1366, "a row that the database refuses")

    store = Store(fail)
    requests = [[new(n)] for n in range(4)]

    futures = in_flight(GroupCommit(store), store, requests)

    assert [future.result() for n, future in enumerate(futures) if n != 2] == [requests[0], requests[1], requests[3]]
    with pytest.raises(DataError):
        futures[2].result()


def test_a_lost_database_fails_all_of_them_with_one_call():
    def fail(events: Sequence[NewEvent]) -> None:
        if len(events) > 1:
            raise OperationalError(2013, "Lost connection")

    store = Store(fail)

    _, *others = in_flight(GroupCommit(store), store, [[new(n)] for n in range(4)])

    for future in others:
        with pytest.raises(OperationalError):
            future.result()
    assert len(store.calls) == 2


def test_requests_go_on_after_a_thread_that_ended_while_it_stored():
    def fail(events: Sequence[NewEvent]) -> None:
        if len(events) > 1:
            raise SystemExit

    store = Store(fail)
    commit: Any = GroupCommit(store)

    first, leader, follower = in_flight(commit, store, [[new(n)] for n in range(3)])

    assert first.result() == [new(0)]
    with pytest.raises(SystemExit):
        leader.result()
    with pytest.raises(Interrupted):
        follower.result()
    assert commit.publish([new(3)]) == [new(3)]


@pytest.mark.every_engine
@pytest.mark.usefixtures("committed")
def test_repeats_and_conflicts_among_requests_that_share_a_statement():
    store = Store()

    def publish(events: Sequence[NewEvent]) -> Any:
        try:
            store(events)
            return publish_many(events)
        finally:
            connection.close()

    requests = [
        [new(0)],
        [new(1)],
        [new(1), NewEvent("a b", Document("1"), "shop")],
        [new(1, "2"), new(2)],
        [new(0)],
        [new(0, "2")],
    ]
    futures = in_flight(GroupCommit(publish), store, requests)

    results = [result for future in futures for result in future.result()]
    assert [result.created if isinstance(result, Published) else type(result) for result in results] == [
        True,
        True,
        False,
        InvalidEvent,
        EventConflict,
        True,
        False,
        EventConflict,
    ]
    assert len(store.calls) == 2
    assert sorted(Event.objects.values_list("external_id", "payload")) == [("0", "1"), ("1", "1"), ("2", "1")]
