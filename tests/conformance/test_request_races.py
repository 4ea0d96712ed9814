"""Requests beside dispatch, settlement, and each other, on connections of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction

from deadletters.models import DeadLetter
from jobs.create import create_jobs
from jobs.models import Job
from sagas.apply_requests import apply_requests
from sagas.dispatch import dispatch
from sagas.models import ABANDON, SEND_AGAIN, SEND_NOW, DeliveryRequest, Saga
from sagas.requests import request_delivery
from tests.webhookhub.integrity.support import assert_clean
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

from . import world
from .rivals import BOUND_SECONDS, Rival, rows_are_locked_one_by_one, together
from .world import BATCH

pytestmark = pytest.mark.every_engine

HOUR = timedelta(hours=1)
MARK = "UPDATE webhook_delivery_sagas SET abandoned_by_id"
INSERT_JOB = "INSERT INTO webhook_delivery_jobs"
INSERT_LETTER = "INSERT INTO dead_letters"


@pytest.fixture(autouse=True)
def _checked(committed, hub_settings):
    hub_settings(base_delay=HOUR, postpone=HOUR)
    yield
    world.run_to_end()
    assert_clean()


def waiting(name: str = "ok") -> Saga:
    world.subscribe(name)
    world.publish_some("a")
    world.route()
    return Saga.objects.get()


def ask(kind: str, saga: Saga, token: str | None = None) -> DeliveryRequest:
    return request_delivery(kind, saga.pk, by=world.Staff(), reason="why", token=token).request


def applying() -> int:
    return apply_requests(BATCH)


def dispatching() -> int:
    return dispatch(BATCH)


def end_of(saga: Saga) -> tuple[str, str | None]:
    world.run_to_end()
    return Saga.objects.values_list("status", "final_error_code").get(pk=saga.pk)


# Abandon and dispatch


def test_a_saga_abandoned_after_it_was_found_due_gets_no_job():
    saga = waiting()
    ask(ABANDON, saga)

    with Rival(dispatching, before=INSERT_JOB) as rival:
        rival.reached()
        applying()
        rival.result()

    assert not Job.objects.exists()
    assert end_of(saga) == ("DeadLettered", "abandoned")


@pytest.mark.parametrize(("name", "end"), [("ok", ("Completed", None)), ("retry", ("DeadLettered", "abandoned"))])
def test_a_saga_whose_job_was_created_before_follows_its_attempt(name: str, end: tuple[str, str | None]):
    saga = waiting(name)
    ask(ABANDON, saga)

    with Rival(dispatching, after=INSERT_JOB) as rival:
        rival.reached()
        applying()
        assert not DeadLetter.objects.exists()
        rival.result()

    saga.refresh_from_db()
    assert (saga.status, Job.objects.count()) == ("InProgress", 1)
    assert end_of(saga) == end
    assert Job.objects.count() == 1


@pytest.mark.parametrize("statement", [MARK, "SELECT", INSERT_LETTER])
def test_a_dispatch_at_any_point_of_abandoning_leaves_a_job_or_a_dead_letter(statement: str):
    saga = waiting()
    ask(ABANDON, saga)

    with Rival(applying, before=statement) as rival:
        rival.reached()
        dispatching()
        rival.result()

    saga.refresh_from_db()
    assert (saga.status, DeadLetter.objects.count(), Job.objects.count()) in {
        ("InProgress", 0, 1),
        ("DeadLettered", 1, 0),
    }


def test_the_mark_waits_for_an_insert_of_jobs_that_has_read_the_saga():
    """Otherwise the saga would be dead-lettered beside a job that is not committed yet."""
    if not rows_are_locked_one_by_one():
        pytest.skip("one writer at a time")
    saga = waiting()
    ask(ABANDON, saga)

    def create() -> None:
        with transaction.atomic():
            create_jobs([saga.pk], "Pending", 0)

    with Rival(create, after=INSERT_JOB) as creator:
        creator.reached()
        with Rival(applying) as abandoner:
            until(lambda: lock_waits() or DeadLetter.objects.exists())
            assert not DeadLetter.objects.exists()
            creator.result()
            abandoner.result()

    assert not DeadLetter.objects.exists()
    assert end_of(saga) == ("Completed", None)


def test_an_insert_of_jobs_waits_for_the_mark():
    if not rows_are_locked_one_by_one():
        pytest.skip("one writer at a time")
    saga = waiting()
    request = ask(ABANDON, saga)

    def mark() -> None:
        with transaction.atomic():
            Saga.objects.filter(pk=saga.pk).update(abandoned_by=request.pk)

    with Rival(mark, after=MARK) as marker:
        marker.reached()
        with Rival(dispatching) as dispatcher:
            until(lambda: lock_waits() or Job.objects.exists())
            marker.result()
            dispatcher.result()

    assert not Job.objects.exists()
    assert end_of(saga) == ("DeadLettered", "abandoned")


def lock_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
        return bool(cursor.fetchone()[0])


def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "it did not happen"
        # The server refreshes its list of transactions only if nobody has read it for 0.1 s.
        threading.Event().wait(0.15)


# Abandon and settle


@pytest.mark.parametrize("statement", [MARK, INSERT_LETTER])
@pytest.mark.parametrize(
    ("name", "end"),
    [("ok", ("Completed", None)), ("retry", ("DeadLettered", "abandoned")), ("dead", ("DeadLettered", "http_500"))],
)
def test_a_result_that_is_settled_meanwhile_is_applied(name: str, end: tuple[str, str | None], statement: str):
    saga = waiting(name)
    dispatch(BATCH)
    world.deliver()
    ask(ABANDON, saga)
    if statement == INSERT_LETTER:
        world.settle()
        if name != "retry":
            applying()  # it has ended, and nothing is left
            assert end_of(saga) == end
            return

    with Rival(applying, before=statement) as rival:
        rival.reached()
        world.settle()
        rival.result()

    assert end_of(saga) == end


# Two orchestrators


@pytest.mark.parametrize("statement", [MARK, INSERT_LETTER])
def test_two_orchestrators_abandon_a_saga_once(statement: str):
    saga = waiting()
    request = ask(ABANDON, saga)

    with Rival(applying, before=statement) as rival:
        rival.reached()
        applying()
        rival.result()

    request.refresh_from_db()
    assert (request.changed, request.batches, DeadLetter.objects.count()) == (1, 1, 1)


@pytest.mark.parametrize("kind", [SEND_NOW, ABANDON, SEND_AGAIN])
def test_two_orchestrators_at_once_apply_a_request_once(kind: str):
    saga = waiting()
    if kind == SEND_AGAIN:
        world.run_to_end()
    else:
        Saga.objects.update(next_attempt_at=clock.now() + HOUR)
    request = ask(kind, saga)

    together(applying, applying)

    request.refresh_from_db()
    assert (request.changed, request.batches) == (1, 1)
    assert Saga.objects.count() == (2 if kind == SEND_AGAIN else 1)


# Send now


def test_a_delivery_that_begins_meanwhile_is_not_touched_by_send_now():
    saga = waiting()
    Saga.objects.update(next_attempt_at=clock.now() + HOUR)
    request = ask(SEND_NOW, saga)

    with Rival(applying, after="SELECT webhook_delivery_sagas") as rival:
        rival.reached()
        Saga.objects.update(next_attempt_at=clock.now())
        dispatch(BATCH)
        rival.result()

    request.refresh_from_db()
    assert (request.changed, Saga.objects.get().status) == (0, "InProgress")


def test_send_now_and_dispatch_at_once_make_one_attempt():
    saga = waiting()
    Saga.objects.update(next_attempt_at=clock.now() + HOUR)
    ask(SEND_NOW, saga)

    together(applying, dispatching)
    dispatching()

    assert Job.objects.count() == 1


# The same token


def test_the_same_request_at_once_is_made_once():
    saga = waiting()

    made = together(*(lambda: ask(ABANDON, saga, "t") for _ in range(2)))

    assert len({request.pk for request in made}) == 1
    assert DeliveryRequest.objects.count() == 1
    assert Entry.objects.filter(action="saga.abandon").count() == 1
