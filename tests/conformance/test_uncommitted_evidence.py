"""A session may read uncommitted rows, or rows as they were when its statement began: nothing is stored on the evidence
of a row that is then rolled back or has changed since."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from deadletters.models import DeadLetter
from jobs.models import Job
from sagas.models import Saga
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.processes.support import until
from tests.support import legal_steps
from webhookhub.db.errors import code_of
from webhookhub.ids import new_uid

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("committed")]

LOCK_WAIT, REFUSED = 1205, 1644
SELECTED = "FROM webhook_delivery_sagas WHERE id = %s"
WITH_EVENT = "FROM webhook_delivery_sagas saga JOIN events ON events.id = saga.event_id WHERE saga.id = %s"
NEW_JOB = (
    "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) "
    f"SELECT id, 1, 'Pending', '2026-01-01' {SELECTED}"
)
NEW_LETTER = (
    "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
    f"SELECT saga.id, event_id, subscription_id, 'x', '2026-01-01', payload {WITH_EVENT}"
)
ABANDONED_LETTER = NEW_LETTER.replace("'x'", "'abandoned'")
SETTLE = "UPDATE webhook_delivery_jobs SET settled_at = '2026-01-01' WHERE saga_id = %s"
RESULT = (
    "UPDATE webhook_delivery_jobs SET status = '{}', error_code = {}, finished_at = '2026-01-01' WHERE saga_id = %s"
)
SUCCEEDED, FAILED = RESULT.format("Completed", "NULL"), RESULT.format("Failed", "'x'")
APPLY = "UPDATE webhook_delivery_sagas SET status = '{}', attempt_count = attempt_count + 1 WHERE id = %s"
COMPLETE, RETRY = APPLY.format("Completed"), APPLY.format("PendingRetry")
START = "UPDATE webhook_delivery_sagas SET status = 'InProgress' WHERE id = %s"
END = "UPDATE webhook_delivery_sagas SET status = 'DeadLettered', attempt_count = 3 WHERE id = %s"


@pytest.fixture
def two() -> Iterator[list[BaseDatabaseWrapper]]:
    opened = [connections.create_connection("default") for _ in range(2)]
    yield opened
    for each in opened:
        each.close()


def outcome(other: BaseDatabaseWrapper, sql: str, *parameters: Any) -> int | None:
    try:
        with other.cursor() as cursor:
            cursor.execute(sql, parameters)
        return None
    except DatabaseError as error:
        return code_of(error)


def read_uncommitted(reader: BaseDatabaseWrapper, lock_wait: int = 1) -> None:
    with reader.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {lock_wait}")


@pytest.mark.parametrize(
    ("evidence", "change"),
    [(NEW_JOB, START), (SUCCEEDED, COMPLETE), (FAILED, RETRY), (NEW_LETTER, END)],
    ids=["job", "success", "failure", "dead letter"],
)
def test_a_saga_waits_for_the_row_that_allows_its_transition(
    two: list[BaseDatabaseWrapper], evidence: str, change: str
):
    writer, reader = two
    saga: Saga = SagaFactory.create()
    if change in (COMPLETE, RETRY):
        saga = SagaFactory.create(status="InProgress")
        legal_steps.finish(legal_steps.current_job(saga), "Leased", None, None, None)
    if change is END:
        saga = SagaFactory.create(status="InProgress", attempt_count=2)
        legal_steps.finish(legal_steps.current_job(saga), "Failed", None, None, None)
    read_uncommitted(reader)
    writer.set_autocommit(False)
    assert outcome(writer, evidence, saga.pk) is None
    before = Saga.objects.values().get(pk=saga.pk)

    assert outcome(reader, change, saga.pk) == LOCK_WAIT
    writer.rollback()
    assert outcome(reader, change, saga.pk) == REFUSED

    assert Saga.objects.values().get(pk=saga.pk) == before
    assert outcome(writer, evidence, saga.pk) is None
    writer.commit()
    assert outcome(reader, change, saga.pk) is None


NEXT_GENERATION = (
    "INSERT INTO webhook_delivery_sagas "
    "(event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay) "
    f"SELECT event_id, subscription_id, generation + 1, 'Pending', 0, 1, 0 {SELECTED}"
)
REQUEUE = (
    "INSERT INTO dead_letter_requeues "
    "(dead_letter_id, requested_by, reason, request_token, max_retry_limit, base_delay) "
    "SELECT id, 'a', 'b', 'c', 1, 0 FROM dead_letters WHERE saga_id = %s"
)


@pytest.mark.parametrize(("end", "again"), [(COMPLETE, NEXT_GENERATION), (END, REQUEUE)], ids=["redelivery", "requeue"])
def test_the_next_generation_waits_for_the_end_of_the_one_before(two: list[BaseDatabaseWrapper], end: str, again: str):
    writer, reader = two
    if end is COMPLETE:
        saga = SagaFactory.create(status="InProgress")
        legal_steps.finish(legal_steps.current_job(saga), "Completed", None, None, None)
    else:
        saga = SagaFactory.create(status="InProgress", attempt_count=2)
        legal_steps.finish(legal_steps.current_job(saga), "Failed", None, None, None)
        assert outcome(writer, NEW_LETTER, saga.pk) is None
    read_uncommitted(reader)
    writer.set_autocommit(False)
    assert outcome(writer, end, saga.pk) is None

    assert outcome(reader, again, saga.pk) == LOCK_WAIT
    writer.rollback()
    assert outcome(reader, again, saga.pk) == REFUSED

    assert outcome(writer, end, saga.pk) is None
    writer.commit()
    assert outcome(reader, again, saga.pk) is None
    assert Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id).count() == 2


def refused_until_committed(two: list[BaseDatabaseWrapper], evidence: tuple[Any, ...], change: tuple[Any, ...]) -> None:
    writer, reader = two
    read_uncommitted(reader)
    writer.set_autocommit(False)
    assert outcome(writer, *evidence) is None
    assert outcome(reader, *change) == LOCK_WAIT
    writer.rollback()
    assert outcome(reader, *change) == REFUSED
    assert outcome(writer, *evidence) is None
    writer.commit()
    assert outcome(reader, *change) is None


def test_a_dead_letter_waits_for_the_result_of_the_last_attempt(two: list[BaseDatabaseWrapper]):
    saga = SagaFactory.create(status="InProgress", attempt_count=2)
    legal_steps.finish(legal_steps.current_job(saga), "Leased", None, None, None)
    refused_until_committed(two, (f"{FAILED} AND attempt_no = 3", saga.pk), (NEW_LETTER, saga.pk))


def test_a_result_is_settled_when_its_saga_has_committed(two: list[BaseDatabaseWrapper]):
    saga = SagaFactory.create(status="InProgress")
    legal_steps.finish(legal_steps.current_job(saga), "Completed", None, None, None)
    refused_until_committed(two, (COMPLETE, saga.pk), (SETTLE, saga.pk))


def test_a_saga_waits_for_its_event(two: list[BaseDatabaseWrapper]):
    subscription, event = SubscriptionFactory.create(), EventFactory.create()
    columns = "event_id, subscription_id, status, attempt_count, max_retry_limit, base_delay"
    new_saga = f"INSERT INTO webhook_delivery_sagas ({columns}) VALUES (%s, %s, 'Pending', 0, 1, 0)"
    new_event = "INSERT INTO events (id, event_type, payload) VALUES (%s, 'a', '{}')"
    next_id = event.pk + 1000
    refused_until_committed(two, (new_event, next_id), (new_saga, next_id, subscription.pk))


def test_a_saga_is_abandoned_by_a_committed_request(two: list[BaseDatabaseWrapper]):
    saga = SagaFactory.create()
    columns = "id, uid, kind, conditions, max_saga_id, requested_by, reason, request_token"
    request = f"INSERT INTO delivery_requests ({columns}) VALUES (%s, %s, 'abandon', '{{}}', %s, 'a', 'b', 'c')"
    mark = "UPDATE webhook_delivery_sagas SET abandoned_by_id = %s WHERE id = %s"
    refused_until_committed(two, (request, 1000, new_uid().hex, saga.pk), (mark, 1000, saga.pk))


def waiting(
    executor: ThreadPoolExecutor, two: list[BaseDatabaseWrapper], condition: str, *statement: Any
) -> Future[Any]:
    """The outcome of a statement of the second connection that has begun to wait."""
    reader = two[1]
    reader.inc_thread_sharing()
    with reader.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        [connection_id] = cursor.fetchone()

    def waits() -> bool:
        with connections["default"].cursor() as cursor:
            # The server shows newer locks only if it was not asked for 0.1 s.
            cursor.execute("DO SLEEP(0.2)")
            cursor.execute(condition, [connection_id])
            return bool(cursor.fetchone())

    future = executor.submit(outcome, reader, *statement)
    until(waits, "a statement that waits")
    return future


FOR_A_ROW = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = %s"
FOR_A_NAME = "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock' AND id = %s"


def test_a_generation_after_a_dead_letter_waits_for_the_record_of_the_requeue(two: list[BaseDatabaseWrapper]):
    writer, reader = two
    saga = SagaFactory.create(status="DeadLettered")
    read_uncommitted(reader, lock_wait=20)
    writer.set_autocommit(False)
    assert outcome(writer, REQUEUE, saga.pk) is None
    with ThreadPoolExecutor(1) as executor:
        result = waiting(executor, two, FOR_A_ROW, NEXT_GENERATION, saga.pk)
        writer.rollback()
        assert result.result() == REFUSED
    assert Saga.objects.count() == 1


def test_an_abandoned_saga_that_has_got_a_job_gets_no_dead_letter(two: list[BaseDatabaseWrapper]):
    """A statement sees other tables as they were when it began."""
    writer, _ = two
    saga = SagaFactory.create()
    assert outcome(writer, "SELECT GET_LOCK('evidence', 0)") is None
    with ThreadPoolExecutor(1) as executor:
        letter = f"{ABANDONED_LETTER} AND GET_LOCK('evidence', 30)"
        result = waiting(executor, two, FOR_A_NAME, letter, saga.pk)
        assert outcome(writer, NEW_JOB, saga.pk) is None
        legal_steps.mark(saga)
        assert outcome(writer, "SELECT RELEASE_LOCK('evidence')") is None
        assert result.result() == REFUSED
    assert Job.objects.count() == 1
    assert not DeadLetter.objects.exists()
