"""How often an idle step polls, by where its work comes from."""

from __future__ import annotations

import pytest

from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner import pace, registry
from webhookhub.runner.backoff import Backoff
from webhookhub.runner.pace import DELIVERY_SECONDS, REMEMBERED_SECONDS, Pace, without_notifications

INTERVAL = 0.5
LOOPS = ("router", "orchestrator", "worker", "cleaner", "workflows")
ONE_HOST = {kind: {"a"} for kind in LOOPS}
TWO_HUBS = {kind: {"a", "b"} for kind in LOOPS}


def longest(kind: str, hosts: pace.Hosts) -> float:
    step = Pace(kind, INTERVAL)
    step.note_hosts(hosts)
    return step.longest


@pytest.mark.parametrize(
    ("hosts", "without"),
    [
        (ONE_HOST, set()),
        (TWO_HUBS, set()),
        (ONE_HOST | {"worker": {"a", "b"}}, set()),
        (ONE_HOST | {"worker": {"b"}}, {"worker"}),
        (ONE_HOST | {"router": {"a", "b"}}, {"orchestrator"}),
        ({"router": {"a"}, "orchestrator": {"b"}, "worker": {"c"}}, {"orchestrator", "worker"}),
        ({"worker": {"a"}}, set()),
    ],
)
def test_a_kind_polls_if_a_host_hands_it_work_and_has_none_of_it(hosts: pace.Hosts, without: set[str]):
    assert without_notifications(hosts) == without


@pytest.mark.parametrize("kind", LOOPS)
def test_a_hub_on_one_host_polls_seldom(kind: str):
    assert longest(kind, ONE_HOST) == INTERVAL


def test_the_time_for_a_delivery_is_shared_by_the_steps_that_poll():
    separate = {"router": {"a"}, "orchestrator": {"b"}, "worker": {"c"}, "cleaner": {"a"}}
    shares = [longest(kind, separate) for kind in ("router", "orchestrator", "worker")]
    assert shares == [DELIVERY_SECONDS / 3] * 3
    assert longest("cleaner", separate) == INTERVAL
    assert longest("worker", ONE_HOST | {"worker": {"b"}}) == DELIVERY_SECONDS / 2


@pytest.mark.parametrize("took", [0.0, 0.004, 60.0])
def test_no_wait_is_longer_than_the_longest(took: float):
    """So that the waits of a delivery for all steps together are at most DELIVERY_SECONDS."""
    waits = Backoff(longest=0.02)
    assert all(waits.after(took) <= 0.02 for _ in range(1000))


def test_a_tenth_of_a_second_has_room_for_the_work_between_the_polls():
    assert DELIVERY_SECONDS <= 0.05


def test_a_shorter_interval_is_kept():
    step = Pace("worker", 0.01)
    step.note_hosts(ONE_HOST | {"worker": {"b"}})
    assert step.longest == 0.01


def test_a_router_polls_often_until_its_notifications_arrive():
    router = Pace("router", INTERVAL)
    router.note_hosts(TWO_HUBS)
    assert router.longest == DELIVERY_SECONDS
    router.note_found(notified=True)
    assert router.longest == INTERVAL
    router.note_hosts(TWO_HUBS)
    assert router.longest == INTERVAL


def test_a_router_that_found_events_without_notifications_polls_often(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("webhookhub.runner.pace.time.monotonic", lambda: now)
    router = Pace("router", INTERVAL)
    router.note_hosts(ONE_HOST)
    router.note_found(notified=False)
    router.note_found(notified=True)
    assert router.longest == DELIVERY_SECONDS
    # However long it finds nothing.
    now += 2 * REMEMBERED_SECONDS
    assert router.longest == DELIVERY_SECONDS
    router.note_found(notified=True)
    assert router.longest == INTERVAL


@pytest.mark.django_db
def test_silent_processes_count_for_nothing():
    now = clock.now()
    for kind, host, is_silent in (("router", "a", False), ("worker", "a", False), ("worker", "b", True)):
        heartbeat_at = now - (2 if is_silent else 0) * registry.silent_after()
        Process.objects.create(name=f"{kind}@{host}", kind=kind, host=host, pid=1, heartbeat_at=heartbeat_at)
    assert registry.hosts() == {"router": {"a"}, "worker": {"a"}}
