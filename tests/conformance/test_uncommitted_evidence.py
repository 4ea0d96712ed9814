"""A session may read uncommitted rows: a saga does not change on the evidence of a row that is then rolled back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from sagas.models import Saga
from tests.factories import SagaFactory
from tests.support import legal_steps
from webhookhub.db.errors import code_of

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("committed")]

LOCK_WAIT, REFUSED = 1205, 1644
SELECTED = "FROM webhook_delivery_sagas WHERE id = %s"
NEW_JOB = (
    "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) "
    f"SELECT id, 1, 'Pending', '2026-01-01' {SELECTED}"
)
NEW_LETTER = (
    "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
    f"SELECT id, event_id, subscription_id, 'x', '2026-01-01', '{{}}' {SELECTED}"
)
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


def outcome(other: BaseDatabaseWrapper, sql: str, pk: int) -> int | None:
    try:
        with other.cursor() as cursor:
            cursor.execute(sql, [pk])
        return None
    except DatabaseError as error:
        return code_of(error)


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
    with reader.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
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
    with reader.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
    writer.set_autocommit(False)
    assert outcome(writer, end, saga.pk) is None

    assert outcome(reader, again, saga.pk) == LOCK_WAIT
    writer.rollback()
    assert outcome(reader, again, saga.pk) == REFUSED

    assert outcome(writer, end, saga.pk) is None
    writer.commit()
    assert outcome(reader, again, saga.pk) is None
    assert Saga.objects.filter(event_id=saga.event_id, subscription_id=saga.subscription_id).count() == 2
