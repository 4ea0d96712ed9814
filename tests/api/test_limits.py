"""The rate limit of a key: bursts, several processes, and the number of statements."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from api import limits
from api.keys import Caller
from api.models import ApiKey
from api.problems import Problem
from events.models import Event
from webhookhub.db import clock

from .conftest import Program

pytestmark = pytest.mark.django_db

EVENT = {"event_type": "a", "payload": 1}


@pytest.fixture
def key(program: Callable[..., Program]) -> Callable[[int], Caller]:
    def make(rate: int) -> Caller:
        program("sender", "events:write", events_per_second=rate)
        return Caller(ApiKey.objects.get(), clock.now())

    return make


def restart() -> None:
    """Act as another process."""
    limits._buckets.clear()


def consumed(caller: Caller, events: int) -> bool:
    try:
        limits.consume(caller, events)
    except Problem as problem:
        return problem.status != 429
    return True


def later(caller: Caller, seconds: float) -> Caller:
    restart()
    return Caller(caller.key, caller.now + timedelta(seconds=seconds))


def test_a_burst_is_limited_to_ten_seconds_worth(key: Callable[[int], Caller]):
    caller = key(5)

    assert [consumed(caller, 1) for _ in range(51)] == [True] * 50 + [False]


def test_after_a_burst_events_pass_at_the_rate(key: Callable[[int], Caller]):
    caller = key(5)
    assert consumed(caller, 50)

    assert [consumed(later(caller, 1), 1) for _ in range(6)] == [True] * 5 + [False]
    assert [consumed(later(caller, 3), 1) for _ in range(11)] == [True] * 10 + [False]
    assert [consumed(later(caller, 1000), 50), consumed(later(caller, 1000), 1)] == [True, False]


def test_several_processes_share_the_limit(key: Callable[[int], Caller]):
    caller, passed = key(20), 0
    processes: list[dict[int, Any]] = [{}, {}, {}]

    for turn in range(300):
        limits._buckets.clear()
        limits._buckets.update(processes[turn % 3])
        passed += consumed(caller, 1)
        processes[turn % 3] = dict(limits._buckets)

    assert passed == 200


def test_a_busy_key_takes_few_statements(key: Callable[[int], Caller], django_assert_num_queries: Any):
    caller = key(1000)

    with django_assert_num_queries(5):  # a tenth of a second's worth, a hundred, at a time
        assert all(consumed(caller, 1) for _ in range(500))


def test_a_refused_key_takes_no_statements_until_an_event_could_pass(
    key: Callable[[int], Caller], django_assert_num_queries: Any
):
    caller = key(1)
    assert consumed(caller, 1000)
    assert not consumed(caller, 1)

    with django_assert_num_queries(0):
        assert not any(consumed(caller, 1) for _ in range(100))


def test_a_batch_larger_than_the_allowance_passes_and_the_next_event_waits(key: Callable[[int], Caller]):
    caller = key(10)

    assert consumed(caller, 1000)
    assert not consumed(later(caller, 90), 1)
    assert consumed(later(caller, 91), 1)


def test_a_smaller_batch_passes_after_a_refused_one(key: Callable[[int], Caller]):
    caller = key(100)

    assert consumed(caller, 900)
    assert not consumed(caller, 200)
    assert consumed(caller, 100), "a smaller batch still fits"


def test_too_many_events_get_429_with_retry_after_and_nothing_is_stored(program: Callable[..., Program]):
    sender = program("sender", "events:write", events_per_second=1)
    # More than the whole allowance: the next event may be sent in eleven seconds.
    assert sender.post("/events/batch", {"events": [EVENT] * 20}).status_code == 200

    response = sender.post("/events", EVENT)
    batch = sender.post("/events/batch", {"events": [EVENT] * 5})

    assert response.status_code == batch.status_code == 429
    assert 1 <= int(response["Retry-After"]) <= 11
    assert Event.objects.count() == 20
    ApiKey.objects.update(spent_until=F("spent_until") - 11 * limits.SECOND)  # as if this time had passed
    restart()
    assert sender.post("/events", EVENT).status_code == 201


def test_a_batch_counts_each_of_its_events(program: Callable[..., Program]):
    sender = program("sender", "events:write", events_per_second=1)

    assert sender.post("/events/batch", {"events": [EVENT] * 10}).status_code == 200
    assert sender.post("/events/batch", {"events": [EVENT] * 10}).status_code == 429
    assert Event.objects.count() == 10


def test_the_default_limit_is_a_setting(program: Callable[..., Program], hub_settings: Callable[..., None]):
    hub_settings(api_events_per_second=1)
    sender = program("sender", "events:write")

    assert sender.post("/events/batch", {"events": [EVENT] * 20}).status_code == 200
    assert sender.post("/events", EVENT).status_code == 429


def lists(count: int) -> str:
    return "[" + ",".join(["[]"] * count) + "]"


@pytest.mark.parametrize(
    ("body", "weight"),
    [
        ("{}", 1),
        (lists(5000), 1),  # below 16 KB
        ('"' + "x" * 160_000 + '"', 9),
        (lists(50_000), 1000),
        ('"' + "," * 160_000 + '"', 1600),
        # Commas in texts do not make a body too large.
        (f'["{"," * 600_000}", "\\",{"," * 600_000}"]', 73),
    ],
)
def test_large_bodies_count_as_several_events(body: str, weight: int):
    assert limits.weight(body) == weight


EVENT_OF_LISTS = f'{{"event_type": "a", "payload": {lists(80_000)}}}'


@pytest.mark.parametrize(
    "body",
    [
        f'{{"events": [{",".join([EVENT_OF_LISTS] * 33)}]}}',
        f'{{"events": [{",".join(["[]"] * 2_700_000)}]}}',
        f'{{"events": [{{"event_type": "a", "payload": {lists(2_700_000)}}}]}}',
        lists(2_700_000),
        "[" * 4_000_000,
        "[" * 4_000_000 + "]" * 4_000_000,
        '["' + '","' * 2_000_000,
        '{"a":' * 1_600_000,
    ],
    ids=["events", "items", "payload", "body", "open", "deep", "texts", "objects"],
)
def test_bodies_of_millions_of_elements_are_refused_at_little_cost(body: str, program: Callable[..., Program]):
    sender = program("sender", "events:write", events_per_second=100_000)
    started = time.process_time()
    response = sender.send("POST", "/events/batch", body.encode()[: 8 * 1024 * 1024])
    assert response.status_code == 413
    assert response.json()["errors"][0]["field"] == "body"
    assert time.process_time() - started < 1


def test_batches_are_charged_by_what_they_cost(program: Callable[..., Program]):
    """Before they are parsed, and even if they are invalid."""
    sender = program("sender", "events:write", events_per_second=200)
    batch = f'{{"events": [{EVENT_OF_LISTS}]}}'.encode()
    assert sender.send("POST", "/events/batch", batch).status_code == 200  # 1,600 of 2,000
    assert sender.send("POST", "/events/batch", batch).status_code == 429
    restart()
    assert sender.send("POST", "/events/batch", b"[" * 100_000).status_code == 429
    assert sender.send("POST", "/events", EVENT_OF_LISTS.encode()).status_code == 429
    assert sender.post("/events", EVENT).status_code == 201
    assert Event.objects.count() == 2


def test_large_events_are_charged_by_what_they_cost(program: Callable[..., Program]):
    sender = program("sender", "events:write", events_per_second=200)
    assert sender.send("POST", "/events", EVENT_OF_LISTS.encode()).status_code == 201
    assert sender.send("POST", "/events", EVENT_OF_LISTS.encode()).status_code == 429
