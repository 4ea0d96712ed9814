"""The state machine in the database: every step that is not in the table of transitions is refused to plain SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import CharField, JSONField, TextField, UUIDField

from deadletters.models import DeadLetter
from jobs import states as job_states
from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.models import DeliveryRequest, Saga
from sagas.transitions import LEGAL, STATUSES, TERMINAL
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db import clock
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.fields import WordField
from webhookhub.db.triggers import Refusal, Rule, declared
from webhookhub.ids import new_token, new_uid

from . import world

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

COLUMNS = "event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay"
LATER, EARLIER = "2100-01-01 00:00:00", "2020-01-01 00:00:00"
NOT_TERMINAL = [status for status in STATUSES if status not in TERMINAL]
# Attempts that a saga of each status may have.
ATTEMPTS = {"Pending": 0, "InProgress": 1, "PendingRetry": 1, "Completed": 2, "DeadLettered": 3}
RESULTS = [pair for pair in LEGAL if pair[0] == "InProgress"]


def execute(sql: str, *parameters: Any) -> int:
    """The number of changed rows."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


@contextmanager
def lenient_session() -> Iterator[None]:
    """A server then stores an empty word for one that it does not know, instead of an error."""
    if connection.vendor != "mysql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.sql_mode")
        [mode] = cursor.fetchone()
        cursor.execute("SET SESSION sql_mode = ''")
        try:
            yield
        finally:
            cursor.execute("SET SESSION sql_mode = %s", [mode])


def insert_saga(status: str = "Pending", attempts: int = 0, generation: int = 0, of: Saga | None = None) -> None:
    event_id = of.event_id if of else EventFactory.create().id
    subscription_id = of.subscription_id if of else SubscriptionFactory.create().id
    execute(
        f"INSERT INTO webhook_delivery_sagas ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, 3, 1000000)",
        *(event_id, subscription_id, generation, status, attempts),
    )


def insert_job(saga_id: int, attempt_no: int, status: str = "Pending", attempt_at: str = LATER) -> None:
    execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) VALUES (%s, %s, %s, %s)",
        *(saga_id, attempt_no, status, attempt_at),
    )


def change(saga: Saga, status: str, attempts: int) -> int:
    return execute(
        "UPDATE webhook_delivery_sagas SET status = %s, attempt_count = %s WHERE id = %s", status, attempts, saga.id
    )


def make(status: str) -> Saga:
    saga: Saga = SagaFactory.create(status=status, attempt_count=ATTEMPTS[status])
    return saga


def make_finished(result: str, attempts: int = 1, **values: Any) -> Saga:
    """InProgress after `attempts` attempts, with a result that it has not applied."""
    saga: Saga = SagaFactory.create(status="InProgress", attempt_count=attempts, **values)
    legal_steps.finish(legal_steps.current_job(saga), result, None, None, None)
    return saga


def make_last_failed() -> Saga:
    """InProgress; its last attempt has failed."""
    return make_finished("Failed", attempts=2)


def make_before(after: str) -> Saga:
    """InProgress, with all that the transition to `after` needs."""
    if after == "Completed":
        return make_finished("Completed")
    saga = make_last_failed() if after == "DeadLettered" else make_finished("Failed")
    if after == "DeadLettered":
        legal_steps.dead_letter(saga)
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


def test_a_saga_delivers_a_stored_event():
    subscription = SubscriptionFactory.create()
    EventFactory.create()
    with pytest.raises(DatabaseError, match="A saga delivers a stored event"):
        insert_saga(of=Saga(event_id=987654, subscription=subscription))


def test_a_generation_follows_the_one_before():
    ended = SagaFactory.create(status="Completed")
    with pytest.raises(DatabaseError, match="redelivery of an ended one"):
        insert_saga(generation=2, of=ended)
    with pytest.raises(DatabaseError, match="redelivery of an ended one"):
        insert_saga(generation=1)  # of another event
    insert_saga(generation=1, of=ended)
    with pytest.raises(DatabaseError, match="redelivery of an ended one"):
        insert_saga(generation=2, of=ended)  # generation 1 is Pending
    assert sorted(Saga.objects.values_list("generation", flat=True)) == [0, 1]


def test_a_generation_after_a_dead_letter_needs_the_record_of_a_requeue():
    ended = make("DeadLettered")
    with pytest.raises(DatabaseError, match="redelivery of an ended one"):
        insert_saga(generation=1, of=ended)
    insert_requeue(ended)  # a trigger creates it
    assert Saga.objects.filter(event=ended.event_id, generation=1, status="Pending").count() == 1
    with pytest.raises(IntegrityError) as refused:
        insert_saga(generation=1, of=ended)
    assert kind_of(refused.value) is Kind.DUPLICATE


@pytest.mark.parametrize(
    ("author", "reason"),
    [("", "r"), ("  ", "r"), ("\u00a0", "r"), ("\u200b\u2800", "r"), ("anna", ""), ("anna", " "), ("anna", "\t\u3000")],
)
def test_a_requeue_has_the_name_of_its_author_and_a_reason(author: str, reason: str):
    ended = make("DeadLettered")
    with pytest.raises(DatabaseError, match="has the name of its author, a reason and a token"):
        insert_requeue(ended, author, reason)
    assert Saga.objects.count() == 1


def insert_requeue(saga: Saga, author: str = "anna", reason: str = "fixed") -> None:
    execute(
        "INSERT INTO dead_letter_requeues (dead_letter_id, requested_by, reason, request_token, max_retry_limit, "
        "base_delay) VALUES (%s, %s, %s, 't', 3, 1000000)",
        *(DeadLetter.objects.get(saga=saga).pk, author, reason),
    )


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
    if before == "InProgress":
        saga = make_before(after)
    elif after == "DeadLettered":
        assert abandon(make_abandoned(before)) == 1
        return
    else:
        saga = make(before)
        insert_job(saga.id, saga.attempt_count + 1)
    assert change(saga, after, saga.attempt_count + ((before, after) in RESULTS)) == 1
    saga.refresh_from_db()
    assert saga.status == after


@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in product(NOT_TERMINAL, STATUSES) if pair not in LEGAL and len(set(pair)) == 2]
)
@pytest.mark.parametrize("added", [0, 1])
def test_any_other_transition_is_refused(before: str, after: str, added: int):
    saga = make(before)
    with pytest.raises(DatabaseError, match=r"only by a legal transition|counts each result once"):
        change(saga, after, saga.attempt_count + added)
    saga.refresh_from_db()
    assert saga.status == before


@pytest.mark.parametrize("added", [-1, 0, 2])
@pytest.mark.parametrize("after", [after for _, after in RESULTS])
def test_a_result_adds_exactly_one_attempt(after: str, added: int):
    saga = make_before(after)
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


@pytest.mark.parametrize("status", ["Pending", "PendingRetry"])
def test_a_saga_is_in_progress_only_with_its_next_job(status: str):
    saga, other = make(status), make(status)
    insert_job(other.id, other.attempt_count + 1)
    with pytest.raises(DatabaseError, match="only with the job of its next attempt"):
        change(saga, "InProgress", saga.attempt_count)
    insert_job(saga.id, saga.attempt_count + 1)
    assert change(saga, "InProgress", saga.attempt_count) == 1


@pytest.mark.parametrize("status", ["Pending", "Leased", "Completed", "Failed"])
@pytest.mark.parametrize("after", [after for _, after in RESULTS])
def test_a_saga_applies_only_the_result_of_its_current_attempt(after: str, status: str):
    """Not that of the attempt before, which has failed, nor that of another saga."""
    saga = make_finished(status, attempts=2, max_retry_limit=3 if after == "DeadLettered" else 4)
    make_finished("Completed"), make_last_failed()
    if after == "DeadLettered" and status == "Failed":
        legal_steps.dead_letter(saga)
    if status == ("Completed" if after == "Completed" else "Failed"):
        assert change(saga, after, 3) == 1
        return
    with pytest.raises(DatabaseError, match=r"only by the (Completed|Failed) job of its attempt"):
        change(saga, after, 3)


def test_a_saga_is_dead_lettered_only_after_its_last_attempt():
    saga = make_finished("Failed")
    with pytest.raises(DatabaseError, match="only after its last attempt"):
        change(saga, "DeadLettered", 2)


def test_a_saga_is_dead_lettered_only_with_its_dead_letter():
    saga, other = make_last_failed(), make_last_failed()
    legal_steps.dead_letter(other)
    with pytest.raises(DatabaseError, match="only with its dead letter"):
        change(saga, "DeadLettered", saga.attempt_count + 1)
    legal_steps.dead_letter(saga)
    assert change(saga, "DeadLettered", saga.attempt_count + 1) == 1
    assert DeadLetter.objects.count() == 2


def test_a_saga_with_a_dead_letter_ends_in_no_other_way():
    saga = make_last_failed()
    legal_steps.dead_letter(saga)
    for after in ("Completed", "PendingRetry"):
        with pytest.raises(DatabaseError):
            change(saga, after, saga.attempt_count + 1)


def test_an_update_to_the_same_status_needs_no_job():
    saga = make("InProgress")
    assert change(saga, "InProgress", saga.attempt_count) == 1


# How a saga is abandoned


def make_abandoned(status: str, *, letter: bool = True) -> Saga:
    """Marked by a request, with all that its end needs."""
    saga = make(status)
    legal_steps.mark(saga)
    if letter:
        legal_steps.dead_letter(saga, code="abandoned")
    return saga


def abandon(saga: Saga, code: str = "abandoned") -> int:
    sql = "UPDATE webhook_delivery_sagas SET status = 'DeadLettered', final_error_code = %s WHERE id = %s"
    return execute(sql, code, saga.id)


WAITING = pytest.mark.parametrize("status", ["Pending", "PendingRetry"])


@WAITING
def test_a_waiting_saga_is_dead_lettered_only_by_a_request(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="only by a request"):
        abandon(saga)
    with pytest.raises(DatabaseError, match="only by a request"):
        abandon(make_abandoned(status), "http_500")
    with pytest.raises(DatabaseError, match="only with its dead letter"):
        abandon(make_abandoned(status, letter=False))


@WAITING
def test_a_saga_with_a_job_is_not_abandoned(status: str):
    saga = make(status)
    insert_job(saga.id, saga.attempt_count + 1)
    legal_steps.mark(saga)
    with pytest.raises(DatabaseError, match="A dead letter needs a saga"), transaction.atomic():
        legal_steps.dead_letter(saga, code="abandoned")
    with pytest.raises(DatabaseError, match="without a job for its next attempt"):
        abandon(saga)


@WAITING
def test_no_job_is_created_for_an_abandoned_saga(status: str):
    saga = make(status)
    legal_steps.mark(saga)
    with pytest.raises(DatabaseError, match="A job is created"):
        insert_job(saga.id, saga.attempt_count + 1)


@pytest.mark.parametrize("result", ["Completed", "Failed"])
def test_an_abandoned_saga_in_progress_applies_its_result(result: str):
    saga = make_finished(result)
    legal_steps.mark(saga)
    assert change(saga, "Completed" if result == "Completed" else "PendingRetry", saga.attempt_count + 1) == 1


def test_a_dead_letter_says_abandoned_only_of_an_abandoned_saga():
    last_failed, waiting, marked = make_last_failed(), make("Pending"), make("Pending")
    legal_steps.mark(marked)
    for saga, code in [(last_failed, "abandoned"), (waiting, "abandoned"), (marked, "http_500")]:
        with pytest.raises(DatabaseError, match="A dead letter needs a saga"), transaction.atomic():
            legal_steps.dead_letter(saga, code=code)
    legal_steps.dead_letter(marked, code="abandoned")


def test_a_saga_is_abandoned_once_by_an_open_request_that_covers_it():
    saga, other = make("Pending"), make("Pending")
    for wrong in (
        {"kind": "send_now"},
        {"max_saga_id": saga.id - 1},
        {"saga_id": other.id, "max_saga_id": other.id},
    ):
        with pytest.raises(DatabaseError, match="by an open request that covers it"):
            legal_steps.mark(saga, **wrong)
    request = legal_steps.mark(other)
    execute("UPDATE delivery_requests SET due_at = NULL WHERE id = %s", request.pk)
    with pytest.raises(DatabaseError, match="by an open request that covers it"):
        execute("UPDATE webhook_delivery_sagas SET abandoned_by_id = %s WHERE id = %s", request.pk, saga.id)
    for change_of_mind in ("NULL", "987654"):
        with pytest.raises(DatabaseError, match="by an open request that covers it"):
            execute(f"UPDATE webhook_delivery_sagas SET abandoned_by_id = {change_of_mind} WHERE id = %s", other.id)


@pytest.mark.parametrize(
    "columns",
    [
        {"applied_at": "'2026-01-01'"},
        {"batches": "1"},
        {"changed": "1"},
        {"scanned_to": "1"},
        {"left_from": "1"},
        {"due_at": "NULL"},
        {"requested_by": "' '"},
        {"reason": "''"},
        {"requested_by": "'\u00a0\u3000\u200b'"},
        {"kind": "'send_again'"},
        {"kind": "''"},
        {"saga_id": "987654", "max_saga_id": "987654"},
        {"conditions": "'{'"},
        {"conditions": "'[]'"},
        {"conditions": "'5'"},
    ],
    ids=lambda columns: "".join(columns),
)
def test_a_request_begins_without_progress_and_with_an_author_and_a_reason(columns: dict[str, str]):
    values = {"kind": "'abandon'", "conditions": "'{}'", "max_saga_id": "1", "requested_by": "'a'", "reason": "'r'"}
    row = {**values, "request_token": "'t'", "uid": f"'{new_uid().hex}'", **columns}
    insert = "INSERT INTO delivery_requests ({}) VALUES ({})"
    with lenient_session(), pytest.raises(DatabaseError):
        execute(insert.format(", ".join(row), ", ".join(row.values())))
    assert not DeliveryRequest.objects.exists()


def request_for(saga: Saga, kind: str, **values: Any) -> None:
    row = {"kind": kind, "conditions": "{}", "saga_id": saga.pk, "max_saga_id": saga.pk, "request_token": new_token()}
    with transaction.atomic():
        DeliveryRequest.objects.create(requested_by="ada", reason="r", **{**row, **values})


def test_a_request_is_for_a_delivery_that_it_can_change():
    for status in NOT_TERMINAL:
        with pytest.raises(DatabaseError, match="to send it again for an ended one"):
            request_for(make(status), "send_again")
    for status in TERMINAL:
        request_for(make(status), "send_again")
    with pytest.raises(DatabaseError, match="is for an existing delivery"):
        request_for(make("Pending"), "abandon", max_saga_id=0)
    request_for(make("Pending"), "abandon")


def test_a_request_counts_its_batches_one_by_one():
    request = legal_steps.mark(make("Pending"))
    for batches in ("2147483647", "2"):
        with pytest.raises(DatabaseError, match="counts its batches one by one"):
            execute(f"UPDATE delivery_requests SET batches = {batches} WHERE id = %s", request.pk)
    for _ in range(2):
        assert execute("UPDATE delivery_requests SET batches = batches + 1 WHERE id = %s", request.pk) == 1


def test_a_request_keeps_its_author_and_its_end():
    request = legal_steps.mark(make("Pending"))
    for column, value in {"requested_by": "'b'", "reason": "'b'", "kind": "'send_now'", "max_saga_id": "9999"}.items():
        with pytest.raises(DatabaseError, match="keeps its author"):
            execute(f"UPDATE delivery_requests SET {column} = {value} WHERE id = %s", request.pk)
    execute("UPDATE delivery_requests SET due_at = NULL, changed = 1 WHERE id = %s", request.pk)
    for column, value in {"changed": "2", "due_at": "'2026-01-01'"}.items():
        with pytest.raises(DatabaseError, match="is final"):
            execute(f"UPDATE delivery_requests SET {column} = {value} WHERE id = %s", request.pk)
    with pytest.raises(DatabaseError, match="never deleted"):
        execute("DELETE FROM delivery_requests WHERE id = %s", request.pk)


# How a dead letter is created


def insert_letter(saga_id: int, event_id: int, subscription_id: int, payload: str | None = None) -> None:
    """With the payload of its event, or another one."""
    execute(
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
        "SELECT %s, id, %s, 'http_500', '2026-01-01 00:00:00', COALESCE(%s, payload) FROM events WHERE id = %s",
        *(saga_id, subscription_id, payload, event_id),
    )


def test_a_dead_letter_is_accepted_for_a_saga_whose_last_attempt_has_failed():
    saga = make_last_failed()
    insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert DeadLetter.objects.get().saga_id == saga.id


def test_a_second_dead_letter_is_a_duplicate_and_no_fault_of_the_state_machine():
    saga = make("DeadLettered")
    with pytest.raises(IntegrityError) as refused:
        insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert kind_of(refused.value) is Kind.DUPLICATE


@pytest.mark.parametrize("status", ["Pending", "InProgress", "PendingRetry", "Completed"])
def test_a_dead_letter_of_another_saga_is_refused(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="A dead letter needs a saga"):
        insert_letter(saga.id, saga.event_id, saga.subscription_id)
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize(("result", "attempts"), [("Pending", 2), ("Leased", 2), ("Completed", 2), ("Failed", 1)])
def test_a_dead_letter_before_the_last_attempt_has_failed_is_refused(result: str, attempts: int):
    saga = make_finished(result, attempts)
    with pytest.raises(DatabaseError, match="whose last attempt has failed"):
        insert_letter(saga.id, saga.event_id, saga.subscription_id)


def test_a_dead_letter_has_the_event_and_the_subscription_of_its_saga():
    saga, other = make_last_failed(), make_last_failed()
    for saga_id, event_id, subscription_id in (
        (saga.id, other.event_id, saga.subscription_id),
        (saga.id, saga.event_id, other.subscription_id),
        (987654, saga.event_id, saga.subscription_id),
    ):
        with pytest.raises(DatabaseError, match="A dead letter needs a saga"):
            insert_letter(saga_id, event_id, subscription_id)
    assert not DeadLetter.objects.exists()


def test_a_dead_letter_has_the_payload_of_its_event():
    saga = make_last_failed()
    for forged in ("{}", '{"order": 1, "paid": true}'):
        with pytest.raises(DatabaseError, match="A dead letter has the payload of its event"):
            insert_letter(saga.id, saga.event_id, saga.subscription_id, forged)
    insert_letter(saga.id, saga.event_id, saga.subscription_id)


# How a job is created


@pytest.mark.parametrize("status", ["Pending", "PendingRetry"])
def test_a_job_is_accepted_as_the_next_attempt_of_a_saga_that_has_not_ended(status: str):
    saga = make(status)
    insert_job(saga.id, saga.attempt_count + 1)
    assert Job.objects.latest("id").attempt_no == saga.attempt_count + 1


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("after", [-1, 0, 2])
def test_a_job_of_another_attempt_is_refused(status: str, after: int):
    saga = make(status)
    before = Job.objects.count()
    with pytest.raises(DatabaseError):
        insert_job(saga.id, saga.attempt_count + after)
    assert Job.objects.count() == before


@pytest.mark.parametrize("status", TERMINAL)
def test_a_job_of_a_saga_that_has_ended_is_refused(status: str):
    saga = make(status)
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        insert_job(saga.id, saga.attempt_count + 1)


def test_an_attempt_is_due_later_than_the_one_before():
    saga = make("PendingRetry")
    [before] = Job.objects.values_list("attempt_at", flat=True)
    for attempt_at in (EARLIER, str(before.replace(tzinfo=None))):
        with pytest.raises(DatabaseError, match="due later than the one before"):
            insert_job(saga.id, 2, attempt_at=attempt_at)
    insert_job(saga.id, 2)


def test_there_is_always_a_time_for_the_next_attempt():
    """An attempt at the last possible time is followed by one that is later."""
    saga = make("Pending")
    with pytest.raises(DatabaseError, match="attempt_at is no date of the calendar, or too late"):
        insert_job(saga.id, 1, attempt_at="8000-01-01 00:00:01")
    insert_job(saga.id, 1, attempt_at="8000-01-01 00:00:00.999999")
    change(saga, "InProgress", 0)
    job = Job.objects.get()
    legal_steps.update(job, status="Leased", lease_until=clock.now())
    result = "UPDATE webhook_delivery_jobs SET status = 'Failed', error_code = 'x', finished_at = %s WHERE id = %s"
    for too_late in ("8000-01-01 00:00:00", "9000-12-01 00:00:00"):
        with pytest.raises(DatabaseError, match="finished_at is no date of the calendar, or too late"):
            execute(result, too_late, job.id)
    execute(result, "7999-12-31 23:59:59.999999", job.id)

    world.settle()
    Saga.objects.update(next_attempt_at=clock.now())
    dispatch(10)

    assert Job.objects.get(attempt_no=2).attempt_at == Job.objects.get(attempt_no=1).attempt_at + timedelta(
        microseconds=1
    )


def test_a_job_without_a_saga_is_refused():
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        insert_job(987654, 1)


@pytest.mark.parametrize("status", ["Leased", "Completed", "Failed"])
def test_a_job_is_created_pending(status: str):
    saga = make("Pending")
    with pytest.raises(DatabaseError, match="A job is created Pending"):
        insert_job(saga.id, 1, status)


def test_one_refused_row_refuses_the_whole_statement():
    pending, ended = make("Pending"), make("Completed")
    before = Job.objects.count()
    with pytest.raises(DatabaseError, match="of a saga that has not ended"):
        execute(
            "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, attempt_at) "
            "VALUES (%s, 1, 'Pending', '2026-01-01 00:00:00'), (%s, 3, 'Pending', '2026-01-01 00:00:00')",
            *(pending.id, ended.id),
        )
    assert Job.objects.count() == before


# How a job changes


@pytest.mark.parametrize(("before", "after"), list(product(job_states.STATUSES, ["", *job_states.STATUSES])))
def test_a_job_changes_only_by_a_legal_transition(before: str, after: str):
    job = JobFactory.create(status=before)
    finished_at, error_code = clock.now() + timedelta(seconds=1), "timeout" if after == "Failed" else None
    sql = "UPDATE webhook_delivery_jobs SET status = %s, finished_at = %s, error_code = %s WHERE id = %s"
    parameters = (after, str(finished_at.replace(tzinfo=None)), error_code, job.id)
    if (before, after) in job_states.LEGAL or before == after in job_states.ACTIVE:
        assert execute(sql, *parameters) == 1
    else:
        with lenient_session(), pytest.raises(DatabaseError, match=r"refused|CHECK"):
            execute(sql, *parameters)


@pytest.mark.parametrize("result", ["Completed", "Failed"])
def test_a_job_is_settled_when_its_saga_has_applied_the_result(result: str):
    saga = make_finished(result)
    job = legal_steps.current_job(saga)
    settle = "UPDATE webhook_delivery_jobs SET settled_at = %s WHERE id = %s"
    with pytest.raises(DatabaseError, match="when its saga has applied the result"):
        execute(settle, EARLIER, job.id)
    change(saga, "Completed" if result == "Completed" else "PendingRetry", saga.attempt_count + 1)
    assert execute(settle, EARLIER, job.id) == 1


def test_a_lease_has_its_end():
    [pending, leased] = [JobFactory.create(status=status) for status in job_states.ACTIVE]
    for job in (pending, leased):
        with pytest.raises(DatabaseError, match="when its lease expires"):
            execute("UPDATE webhook_delivery_jobs SET status = 'Leased', lease_until = NULL WHERE id = %s", job.id)
    assert execute("UPDATE webhook_delivery_jobs SET status = 'Leased' WHERE id = %s", pending.id) == 1


def test_the_resets_of_a_lease_are_counted_one_by_one():
    [pending, leased] = [JobFactory.create(status=status) for status in job_states.ACTIVE]
    reset = "UPDATE webhook_delivery_jobs SET status = '{}', lease_resets = {} WHERE id = %s"
    for job, status, resets in (
        (pending, "Pending", "1"),
        (pending, "Leased", "1"),
        (leased, "Leased", "1"),
        (leased, "Pending", "2"),
        (leased, "Pending", "2147483647"),
    ):
        with pytest.raises(DatabaseError, match="is counted once"):
            execute(reset.format(status, resets), job.id)
    early = "UPDATE webhook_delivery_jobs SET status = 'Pending', lease_resets = 1, lease_until = %s WHERE id = %s"
    with pytest.raises(DatabaseError, match="not ready before the lease ends"):
        execute(early, EARLIER, leased.id)
    assert execute(reset.format("Pending", "lease_resets + 1"), leased.id) == 1
    saga = make("Pending")
    columns = "saga_id, attempt_no, status, attempt_at, lease_resets"
    with pytest.raises(DatabaseError, match="A job is created Pending"):
        execute(
            f"INSERT INTO webhook_delivery_jobs ({columns}) VALUES (%s, 1, 'Pending', %s, 2147483647)", saga.id, LATER
        )


def test_a_request_has_a_uid_that_can_be_read():
    """The orchestrator could read neither it nor any later one."""
    columns = "uid, kind, conditions, max_saga_id, requested_by, reason, request_token"
    values = "'zz', 'abandon', '{}', 1, 'me', 'x', 'token'"
    with pytest.raises(DatabaseError):
        execute(f"INSERT INTO delivery_requests ({columns}) VALUES ({values})")


def test_no_attempt_ends_with_the_code_of_a_request():
    """Its saga could end neither by the attempt nor by a request."""
    job = JobFactory.create(status="Leased")
    result = "UPDATE webhook_delivery_jobs SET status = 'Failed', finished_at = %s, error_code = %s WHERE id = %s"
    with pytest.raises(DatabaseError, match="A result has its time"):
        execute(result, EARLIER, "abandoned", job.id)
    assert execute(result, EARLIER, "http_500", job.id) == 1


# What the triggers are made of


def test_every_legal_transition_has_its_needs():
    needs = import_module("sagas.migrations.0002_triggers").NEEDS
    assert set(needs) == set(LEGAL)
    assert all(needs.values())


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
        if isinstance(rule, Rule)
        for column in rule.protects_values
    ]
    assert compared
    texts = []
    for table, column in compared:
        [field] = [field for field in tables[table]._meta.concrete_fields if field.column == column]
        if isinstance(field, CharField | TextField | JSONField | UUIDField) and not isinstance(field, WordField):
            texts.append((table, column))
    assert texts == []
