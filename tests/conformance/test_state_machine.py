"""The state machine in the database: every step that is not in the table of transitions is refused to plain SQL."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import CharField, JSONField, TextField, UUIDField

from deadletters.models import DeadLetter
from jobs.models import Job
from sagas.models import Saga
from sagas.transitions import LEGAL, STATUSES, TERMINAL, WITH_DEAD_LETTER
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.fields import WordField
from webhookhub.db.triggers import Refusal, declared

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

COLUMNS = "event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay"
NOT_TERMINAL = [status for status in STATUSES if status not in TERMINAL]
# Attempts that a saga of each status may have.
ATTEMPTS = {"Pending": 0, "InProgress": 1, "PendingRetry": 1, "Completed": 2, "DeadLettered": 2}
RESULTS = [pair for pair in LEGAL if pair[0] == "InProgress"]


def execute(sql: str, *parameters: Any) -> int:
    """The number of changed rows."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def insert_saga(status: str = "Pending", attempts: int = 0, generation: int = 0, of: Saga | None = None) -> None:
    event_id = of.event_id if of else EventFactory.create().id
    subscription_id = of.subscription_id if of else SubscriptionFactory.create().id
    execute(
        f"INSERT INTO webhook_delivery_sagas ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, 3, 1000000)",
        *(event_id, subscription_id, generation, status, attempts),
    )


def insert_job(saga_id: int, attempt_no: int, status: str = "Pending") -> None:
    execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) "
        "VALUES (%s, %s, %s, '2026-01-01 00:00:00')",
        *(saga_id, attempt_no, status),
    )


def change(saga: Saga, status: str, attempts: int) -> int:
    return execute(
        "UPDATE webhook_delivery_sagas SET status = %s, attempt_count = %s WHERE id = %s", status, attempts, saga.id
    )


def make(status: str) -> Saga:
    saga: Saga = SagaFactory.create(status=status, attempt_count=ATTEMPTS[status])
    return saga


# How a saga is created


def test_a_saga_is_created_pending_without_attempts():
    insert_saga()
    assert Saga.objects.values_list("status", "attempt_count").get() == ("Pending", 0)


@pytest.mark.parametrize(
    ("status", "attempts"), [*((status, 0) for status in STATUSES[1:]), ("Pending", 1), ("PendingRetry", 1)]
)
def test_a_saga_is_created_in_no_other_state(status: str, attempts: int):
    with pytest.raises(DatabaseError, match="A saga is created Pending"):
        insert_saga(status, attempts)
    assert not Saga.objects.exists()


def test_a_generation_follows_the_one_before():
    ended = SagaFactory.create(status="Completed")
    with pytest.raises(DatabaseError, match="after an ended generation"):
        insert_saga(generation=2, of=ended)
    with pytest.raises(DatabaseError, match="after an ended generation"):
        insert_saga(generation=1)  # of another event
    insert_saga(generation=1, of=ended)
    with pytest.raises(DatabaseError, match="after an ended generation"):
        insert_saga(generation=2, of=ended)  # generation 1 is Pending
    assert sorted(Saga.objects.values_list("generation", flat=True)) == [0, 1]


# How it changes


def test_the_trigger_has_the_transitions_of_the_table():
    [trigger] = [trigger for trigger in declared() if trigger.name == "trg_saga_changed"]
    sql = trigger.create_sql(connection)
    written = {
        (before, after)
        for before, after in product(STATUSES, STATUSES)
        if f"OLD.status = '{before}' AND NEW.status = '{after}'" in sql
    }
    assert written == set(LEGAL)


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_a_legal_transition_is_accepted(before: str, after: str):
    saga = make(before)
    if after == "DeadLettered":
        legal_steps.dead_letter(saga)
    assert change(saga, after, saga.attempt_count + ((before, after) in RESULTS)) == 1
    saga.refresh_from_db()
    assert saga.status == after


@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in product(NOT_TERMINAL, STATUSES) if pair not in LEGAL and len(set(pair)) == 2]
)
@pytest.mark.parametrize("added", [0, 1])
def test_any_other_transition_is_refused(before: str, after: str, added: int):
    saga = make(before)
    with pytest.raises(DatabaseError, match="only by a legal transition"):
        change(saga, after, saga.attempt_count + added)
    saga.refresh_from_db()
    assert saga.status == before


@pytest.mark.parametrize("added", [-1, 0, 2])
@pytest.mark.parametrize("after", [after for _, after in RESULTS])
def test_a_result_adds_exactly_one_attempt(after: str, added: int):
    saga = make("InProgress")
    legal_steps.dead_letter(saga)
    with pytest.raises(DatabaseError, match="counts each result once"):
        change(saga, after, saga.attempt_count + added)


@pytest.mark.parametrize("status", NOT_TERMINAL)
def test_attempts_are_not_counted_without_a_result(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="counts each result once"):
        change(saga, status, saga.attempt_count + 1)
    if status != "InProgress":
        with pytest.raises(DatabaseError, match="counts each result once"):
            change(saga, "InProgress", saga.attempt_count + 1)


def test_a_saga_is_dead_lettered_only_with_its_dead_letter():
    saga, other = make("InProgress"), make("InProgress")
    legal_steps.dead_letter(other)
    with pytest.raises(DatabaseError, match="only with its dead letter"):
        change(saga, "DeadLettered", saga.attempt_count + 1)
    legal_steps.dead_letter(saga)
    assert change(saga, "DeadLettered", saga.attempt_count + 1) == 1
    assert DeadLetter.objects.count() == 2


# How a dead letter is created


def insert_letter(saga_id: int, event_id: int, subscription_id: int) -> None:
    execute(
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
        "VALUES (%s, %s, %s, 'http_500', '2026-01-01 00:00:00', '{}')",
        *(saga_id, event_id, subscription_id),
    )


def test_a_dead_letter_is_accepted_for_a_saga_that_can_end_with_it():
    saga = make("InProgress")
    insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert DeadLetter.objects.get().saga_id == saga.id


def test_a_second_dead_letter_is_a_duplicate_and_no_fault_of_the_state_machine():
    saga = make("DeadLettered")
    with pytest.raises(IntegrityError) as refused:
        insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert kind_of(refused.value) is Kind.DUPLICATE


@pytest.mark.parametrize("status", ["Pending", "PendingRetry", "Completed"])
def test_a_dead_letter_of_another_saga_is_refused(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="A dead letter needs a saga"):
        insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert not DeadLetter.objects.exists()


def test_a_dead_letter_has_the_event_and_the_subscription_of_its_saga():
    saga, other = make("InProgress"), make("InProgress")
    for saga_id, event_id, subscription_id in (
        (saga.id, other.event_id, saga.subscription_id),
        (saga.id, saga.event_id, other.subscription_id),
        (987654, saga.event_id, saga.subscription_id),
    ):
        with pytest.raises(DatabaseError, match="A dead letter needs a saga"):
            insert_letter(saga_id, event_id, subscription_id)
    assert not DeadLetter.objects.exists()


def test_the_trigger_has_the_statuses_from_which_a_saga_is_dead_lettered():
    assert set(WITH_DEAD_LETTER) == {before for before, after in LEGAL if after == "DeadLettered"} | {"DeadLettered"}
    [trigger] = [trigger for trigger in declared() if trigger.name == "trg_dead_created"]
    sql = trigger.create_sql(connection)
    assert {status for status in STATUSES if f"'{status}'" in sql} == set(WITH_DEAD_LETTER)


# How a job is created


@pytest.mark.parametrize("status", NOT_TERMINAL)
def test_a_job_is_accepted_as_the_next_attempt_of_a_saga_that_has_not_ended(status: str):
    saga = make(status)
    insert_job(saga.id, saga.attempt_count + 1)
    assert Job.objects.get().attempt_no == saga.attempt_count + 1


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("after", [-1, 0, 2])
def test_a_job_of_another_attempt_is_refused(status: str, after: int):
    saga = make(status)
    with pytest.raises(DatabaseError):
        insert_job(saga.id, saga.attempt_count + after)
    assert not Job.objects.exists()


@pytest.mark.parametrize("status", TERMINAL)
def test_a_job_of_a_saga_that_has_ended_is_refused(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        insert_job(saga.id, saga.attempt_count + 1)


def test_a_job_without_a_saga_is_refused():
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        insert_job(987654, 1)


@pytest.mark.parametrize("status", ["Leased", "Completed", "Failed"])
def test_a_job_is_created_pending(status: str):
    saga = make("Pending")
    with pytest.raises(DatabaseError, match="A job is created Pending"):
        insert_job(saga.id, 1, status)


def test_one_refused_row_refuses_the_whole_statement():
    job = JobFactory.create()
    ended = make("Completed")
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        execute(
            "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) "
            "VALUES (%s, 1, 'Pending', '2026-01-01 00:00:00'), (%s, 3, 'Pending', '2026-01-01 00:00:00')",
            *(make("Pending").id, ended.id),
        )
    assert Job.objects.get() == job


# What the triggers are made of


def test_a_table_has_one_refusal_for_each_event():
    kinds = [(trigger.table, trigger.event) for trigger in declared() if isinstance(trigger, Refusal)]
    assert len(kinds) == len(set(kinds))


def test_columns_that_are_compared_as_values_hold_no_text():
    """Two texts that differ can be equal under a collation."""
    tables = {model._meta.db_table: model for model in apps.get_models()}
    compared = [
        (trigger.table, column)
        for trigger in declared()
        if isinstance(trigger, Refusal)
        for rule in trigger.rules
        for column in rule.protects_values
    ]
    assert compared
    texts = []
    for table, column in compared:
        [field] = [field for field in tables[table]._meta.concrete_fields if field.column == column]
        if isinstance(field, CharField | TextField | JSONField | UUIDField) and not isinstance(field, WordField):
            texts.append((table, column))
    assert texts == []
