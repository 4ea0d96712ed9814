"""An event is stored once, and routed whenever its transaction commits."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction

from events.errors import EventConflict
from events.intake import Published, publish
from events.models import Event, RoutingInbox
from events.routing import Router
from sagas.models import Saga
from tests.factories import EventFactory
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new

from . import world
from .rivals import Rival, after, rows_are_locked_one_by_one, together

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]


@pytest.mark.requirement("R3-1.3c")
def test_one_external_id_published_from_several_connections_at_once_makes_one_event():
    results = together(*[lambda: publish(world.TYPE, {"n": 1}, external_id="x")] * 6)

    assert [result.created for result in results].count(True) == 1
    assert len({result.uid for result in results}) == 1
    assert Event.objects.count() == RoutingInbox.objects.count() == 1


def test_one_external_id_with_two_bodies_at_once_makes_one_event_and_one_conflict():
    def attempt(n: int) -> Published | EventConflict:
        try:
            return publish(world.TYPE, {"n": n}, external_id="x")
        except EventConflict as error:
            return error

    results = together(lambda: attempt(1), lambda: attempt(2))

    [published] = [result for result in results if isinstance(result, Published)]
    [conflict] = [result for result in results if isinstance(result, EventConflict)]
    assert published.created
    assert conflict.uid == str(published.uid)
    assert Event.objects.count() == 1


def test_an_external_id_whose_first_transaction_is_rolled_back_is_free_for_the_second():
    class Regret(Exception):
        pass

    def first() -> None:
        with transaction.atomic():
            publish(world.TYPE, {"n": 1}, external_id="x")
            raise Regret

    with (
        Rival(first, after="INSERT INTO events") as regretting,
        Rival(lambda: publish(world.TYPE, {"n": 2}, external_id="x"), before="INSERT INTO events") as second,
    ):
        regretting.reached()
        second.reached()
        with pytest.raises(Regret):
            regretting.result()
        assert second.result().created

    assert Event.objects.values_list("payload", flat=True).get().replace(" ", "") == '{"n":2}'
    assert RoutingInbox.objects.count() == 1


@pytest.mark.requirement("R3-3.1a")
def test_an_event_that_commits_after_a_later_one_is_routed():
    world.subscribe("ok")

    def publish_slowly() -> Published:
        with transaction.atomic():
            return publish(world.TYPE, {}, external_id="early")

    def publish_quickly() -> Published:
        return publish(world.TYPE, {}, external_id="late")

    with Rival(publish_slowly, after="INSERT INTO events") as slow, Rival(publish_quickly, before="INSERT") as quick:
        slow.reached()
        quick.reached()
        if rows_are_locked_one_by_one():
            later = quick.result()
            assert world.route() == 1
            assert Saga.objects.values_list("event_id", flat=True).get() == later.id
            assert slow.result().id < later.id
        slow.result()
        quick.result()

    while world.route():
        pass
    assert Counter(Saga.objects.values_list("event__external_id", flat=True)) == {"early": 1, "late": 1}


def test_a_router_does_not_wait_for_a_producer_that_keeps_its_transaction_open():
    world.subscribe("ok")

    def publish_slowly() -> Published:
        with transaction.atomic():
            return publish(world.TYPE, {}, external_id="slow")

    world.publish_some("a", "b", "c")
    with Rival(publish_slowly, after="INSERT INTO events") as slow:
        slow.reached()
        if rows_are_locked_one_by_one():
            # Three rows of four: few enough for an optimizer to look at all of them, the held one included.
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            try:
                routed = world.route()
            except OperationalError as error:
                raise AssertionError("the router waits for the producer") from error
            assert routed == 3
            connection.close()  # and with it that setting
        slow.result()

    assert world.route() == (1 if rows_are_locked_one_by_one() else 4)


@pytest.mark.requirement("R4-1.2c")
def test_a_router_neither_waits_for_nor_repeats_the_work_of_another():
    world.subscribe("ok", "retry")
    world.publish_some("a", "b")
    with (
        Rival(world.route, before="DELETE") as first,
        Rival(after(first, world.route)) as second,
    ):
        if rows_are_locked_one_by_one():
            assert second.result() == 0
        assert first.result() == 2
        assert second.result() == 0

    assert Counter(Saga.objects.values_list("event_id", flat=True)) == dict.fromkeys(ids(Event), 2)
    assert not RoutingInbox.objects.exists()


@pytest.mark.requirement("R1-2.3a")
@pytest.mark.requirement("R3-3.3a")
@pytest.mark.requirement("R4-1.2b", "R4-3.2c")
def test_concurrent_routers_create_each_saga_once():
    world.subscribe("ok", "retry", "dead")
    world.publish_some(*(f"e{n}" for n in range(60)))

    routed = together(*[route_all] * 4)

    assert sum(routed) == 60
    assert Counter(Saga.objects.values_list("event_id", flat=True)) == dict.fromkeys(ids(Event), 3)
    assert not RoutingInbox.objects.exists()


def route_all() -> int:
    router, total = Router(), 0
    while RoutingInbox.objects.exists():
        total += router.route(7)
    return total


@pytest.mark.requirement("R3-3.2b")
def test_concurrent_idempotent_inserts_create_each_row_once_without_errors():
    for n in range(1, 101):
        EventFactory.create(id=n)
    now = clock.now()
    rows = [
        {
            "event_id": n,
            "subscription_id": 1,
            "status": "Pending",
            "attempt_count": 0,
            "generation": 0,
            "next_attempt_at": now,
            "max_retry_limit": 3,
            "base_delay": timedelta(seconds=1),
        }
        for n in range(1, 101)
    ]

    # In opposite orders, because that is how two batches come to wait for each other.
    key = ("event_id", "subscription_id", "generation")
    together(*[lambda: insert_new(Saga, rows, key=key), lambda: insert_new(Saga, rows[::-1], key=key)] * 3)

    assert sorted(Saga.objects.values_list("event_id", flat=True)) == list(range(1, 101))


def ids(model: type[Event]) -> list[int]:
    return list(model.objects.values_list("id", flat=True))
