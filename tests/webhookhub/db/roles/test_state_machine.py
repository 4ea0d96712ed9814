"""Each role tries, by raw SQL, what it has the privilege for and the state machine forbids: the database refuses it.

The other half, what a role has no privilege for, is in test_matrix.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.models import Job
from sagas.models import Saga
from sagas.transitions import LEGAL, STATUSES, WAITING
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db import vendors
from webhookhub.db.errors import code_of
from webhookhub.db.roles import ROLES
from webhookhub.ids import new_uid

from .accounts import connected_as
from .declaration import may

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("granted", "committed")]

# By a trigger; or by a check constraint, which MySQL lets no session switch off.
REFUSED, DENIED = {1644, 3819}, {1142, 1143}
SAGAS, JOBS = "webhook_delivery_sagas", "webhook_delivery_jobs"
SAGA_COLUMNS = "event_id, subscription_id, status, attempt_count, max_retry_limit, base_delay"
LETTERS, REQUEUES, REQUESTS = "dead_letters", "dead_letter_requeues", "delivery_requests"
LATER = "2100-01-01"
LETTER_COLUMNS = "saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot"
JOB_COLUMNS = "saga_id, attempt_no, status, attempt_at"
ATTEMPTS = {"Pending": 0, "InProgress": 1, "PendingRetry": 1, "Completed": 2, "DeadLettered": 3}
EVERY_ROLE = pytest.mark.parametrize("role", [role.name for role in ROLES])
Statement = tuple[str, str, tuple[Any, ...]]


def outcome(other: BaseDatabaseWrapper, sql: str, parameters: tuple[Any, ...]) -> int:
    """0 or the server's error code; nothing stays."""
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            # Whatever a session may switch off without a privilege is off.
            cursor.execute(f"SET SESSION sql_mode = ''{', check_constraint_checks = 0' * vendors.is_mariadb(other)}")
            cursor.execute(sql, parameters)
            assert cursor.rowcount == 1
        return 0
    except DatabaseError as error:
        return code_of(error) or -1
    finally:
        other.rollback()
        other.set_autocommit(True)


def insert_saga(saga: Saga, status: str = "Pending", attempts: int = 0) -> Statement:
    values = (EventFactory.create().id, saga.subscription_id, status, attempts)
    what = f"create a saga {status} with {attempts} attempts"
    return what, f"INSERT INTO {SAGAS} ({SAGA_COLUMNS}) VALUES (%s, %s, %s, %s, 3, 1)", values


def insert_generation(saga: Saga, generation: int) -> Statement:
    values = (saga.event_id, saga.subscription_id, "Pending", 0, generation)
    sql = f"INSERT INTO {SAGAS} ({SAGA_COLUMNS}, generation) VALUES (%s, %s, %s, %s, 3, 1, %s)"
    return f"create generation {generation} after a saga {saga.status}", sql, values


def insert_job(saga: Saga, attempt_no: int, status: str = "Pending", attempt_at: str = LATER) -> Statement:
    sql = f"INSERT INTO {JOBS} ({JOB_COLUMNS}) VALUES (%s, %s, %s, %s)"
    values = (saga.id, attempt_no, status, attempt_at)
    return f"create job {attempt_no} {status} of a saga {saga.status}, due {attempt_at}", sql, values


def change_job(saga: Saga, status: str) -> Statement:
    job = legal_steps.current_job(saga)
    sql = f"UPDATE {JOBS} SET status = %s WHERE id = %s"
    return f"job {job.status} to {status!r}", sql, (status, job.id)


def settle(saga: Saga) -> Statement:
    job = legal_steps.current_job(saga)
    legal_steps.update(saga, status="Completed", attempt_count=job.attempt_no)
    return "settle a result that was applied", f"UPDATE {JOBS} SET settled_at = '2026-01-01' WHERE id = %s", (job.id,)


def change_saga(saga: Saga, status: str, added: int) -> Statement:
    sql = f"UPDATE {SAGAS} SET status = %s, attempt_count = attempt_count + {added} WHERE id = %s"
    return f"{saga.id} {saga.status} to {status}, {added} attempts more", sql, (status, saga.id)


def insert_letter(
    saga: Saga, event_id: int | None = None, subscription_id: int | None = None, payload: str | None = None
) -> Statement:
    values = (saga.id, event_id or saga.event_id, subscription_id or saga.subscription_id)
    sql = f"INSERT INTO {LETTERS} ({LETTER_COLUMNS}) VALUES (%s, %s, %s, 'x', '2026-01-01', %s)"
    return f"create a dead letter {values} of a saga {saga.status}", sql, (*values, payload or saga.event.payload)


def insert_requeue(saga: Saga, author: str, reason: str) -> Statement:
    sql = (
        f"INSERT INTO {REQUEUES} (dead_letter_id, requested_by, reason, request_token, max_retry_limit, base_delay) "
        "VALUES (%s, %s, %s, 't', 3, 1)"
    )
    return f"requeue by {author!r} for {reason!r}", sql, (saga.dead_letters.get().pk, author, reason)


def without_values(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    """NULL and zero dates, which a server turns into other values after its triggers."""
    running_id, retry_id, ended = sagas["InProgress"].id, sagas["PendingRetry"].id, sagas["DeadLettered"]
    leased_id, event_id = legal_steps.current_job(running("Leased")).id, EventFactory.create().id
    letter_id, subscription_id = ended.dead_letters.get().pk, ended.subscription_id
    result = f"UPDATE {JOBS} SET status = 'Failed', error_code = 'x', finished_at = '0000-00-00' WHERE id = {leased_id}"
    new_saga = f"INSERT INTO {SAGAS} ({SAGA_COLUMNS}) VALUES ({event_id}, {subscription_id}, NULL, NULL, 3, 1)"
    new_job = f"INSERT IGNORE INTO {JOBS} ({JOB_COLUMNS}) VALUES ({sagas['Pending'].id}, 1, NULL, NULL)"
    requeue = (
        f"INSERT INTO {REQUEUES} (dead_letter_id, requested_by, reason, request_token, max_retry_limit, base_delay) "
        f"VALUES ({letter_id}, {{}}, {{}}, {{}}, 3, 1)"
    )
    verified = "UPDATE subscriptions SET verified = 1, verification_at = '0000-00-00'"
    statements = [
        (f"UPDATE {SAGAS} status", f"UPDATE IGNORE {SAGAS} SET status = NULL WHERE id = {running_id}"),
        (f"UPDATE {SAGAS} status", f"UPDATE {SAGAS} SET status = NULL, attempt_count = 7 WHERE id = {running_id}"),
        (f"UPDATE {SAGAS} status", f"UPDATE {SAGAS} SET attempt_count = NULL WHERE id = {running_id}"),
        (f"UPDATE {SAGAS} status", f"UPDATE {SAGAS} SET next_attempt_at = '0000-00-00' WHERE id = {retry_id}"),
        (f"INSERT {SAGAS} status", new_saga),
        (f"INSERT {JOBS} status", new_job),
        (f"UPDATE {JOBS} status", f"UPDATE {JOBS} SET status = NULL WHERE id = {leased_id}"),
        (f"UPDATE {JOBS} finished_at", result),
        *(
            (f"INSERT {REQUEUES} reason", requeue.format(*words))
            for words in (("NULL", "'r'", "'t'"), ("'a'", "NULL", "'t'"), ("'a'", "'r'", "NULL"))
        ),
        *(
            (f"INSERT {REQUEUES} reason", requeue.format(*words))
            for words in (("'\\t'", "'r'", "'t'"), ("'a'", "'\\n'", "'t'"), ("'a'", "'r'", "' '"))
        ),
        ("INSERT events payload", "INSERT INTO events (event_type, payload) VALUES ('a', NULL)"),
        ("INSERT events payload", "INSERT INTO events (event_type, payload, created_at) VALUES ('a', '{}', NULL)"),
        ("UPDATE subscriptions callback_url", "UPDATE subscriptions SET callback_url = NULL"),
        ("UPDATE subscriptions verified", verified),
    ]
    return [(privilege, (sql, sql, ())) for privilege, sql in statements]


def stopping_a_loop(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    """Rows with which the step that reads them next would fail, each time it is repeated."""
    unapplied_id, leased_id = (legal_steps.current_job(running(status)).id for status in ("Completed", "Leased"))
    subscription_id, pending_id = sagas["Pending"].subscription_id, sagas["Pending"].id
    result = f"UPDATE {JOBS} SET status = 'Failed', error_code = '{{}}', finished_at = '{{}}' WHERE id = {leased_id}"
    request = (
        f"INSERT INTO {REQUESTS} (uid, kind, saga_id, conditions, max_saga_id, requested_by, reason, request_token) "
        f"VALUES ('{new_uid().hex}', {{}}, 'r', 't')"
    )
    saga = f"INSERT INTO {SAGAS} ({SAGA_COLUMNS}) VALUES (987654, {subscription_id}, 'Pending', 0, 3, 1)"
    event = "INSERT INTO events (event_type, payload, correlation_id) VALUES ('a', '{}', 'a\tb')"
    requests = [
        f"'other', {pending_id}, '{{}}', {pending_id}, 'a'",
        "'abandon', 987654, '{}', 987654, 'a'",
        f"'abandon', {pending_id}, '{{}}', 0, 'a'",
        f"'send_again', {pending_id}, '{{}}', {pending_id}, 'a'",
        f"'abandon', NULL, '[]', {pending_id}, 'a'",
        f"'abandon', NULL, '{{}}', {pending_id}, '\u00a0'",
    ]
    statements = [
        (f"UPDATE {JOBS} settled_at", f"UPDATE {JOBS} SET settled_at = '2026-01-01' WHERE id = {unapplied_id}"),
        (f"UPDATE {JOBS} lease_until", f"UPDATE {JOBS} SET lease_until = NULL WHERE id = {leased_id}"),
        (f"UPDATE {JOBS} lease_resets", f"UPDATE {JOBS} SET lease_resets = 4294967295 WHERE id = {leased_id}"),
        (f"UPDATE {JOBS} finished_at", result.format("x", "9000-12-01")),
        (f"UPDATE {JOBS} finished_at", result.format("abandoned", "2026-01-01")),
        (f"INSERT {SAGAS} status", saga),
        ("INSERT events correlation_id", event),
        *((f"INSERT {REQUESTS} reason", request.format(values)) for values in requests),
    ]
    return [
        (f"INSERT {JOBS} status", insert_job(sagas["Pending"], 1, attempt_at="9000-12-01")),
        (f"INSERT {LETTERS} saga_id", insert_letter(running("Failed", 2), payload="{}")),
        *((privilege, (sql, sql, ())) for privilege, sql in statements),
    ]


@pytest.fixture
def sagas() -> dict[str, Saga]:
    """One of each status."""
    subscription = SubscriptionFactory.create()
    return {
        status: SagaFactory.create(subscription=subscription, status=status, attempt_count=attempts)
        for status, attempts in ATTEMPTS.items()
    }


def abandoned(status: str, *, with_letter: bool = True) -> Saga:
    saga: Saga = SagaFactory.create(status=status)
    legal_steps.mark(saga)
    if with_letter:
        legal_steps.dead_letter(saga, code="abandoned")
    return saga


def abandon(saga: Saga, code: str = "abandoned") -> Statement:
    sql = f"UPDATE {SAGAS} SET status = 'DeadLettered', final_error_code = %s WHERE id = %s"
    return f"abandon {saga.id} {saga.status} with {code}", sql, (code, saga.id)


def running(result: str, attempts: int = 1, *, with_letter: bool = False) -> Saga:
    """InProgress after `attempts` attempts, with a result that it has not applied."""
    saga: Saga = SagaFactory.create(status="InProgress", attempt_count=attempts)
    legal_steps.finish(legal_steps.current_job(saga), result, None, None, None)
    if with_letter:
        legal_steps.dead_letter(saga)
    return saga


def forbidden(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    """(privilege, table and column; statement)"""
    pending, ended, last_failed = sagas["Pending"], sagas["DeadLettered"], running("Failed", 2)
    births = [(status, 0) for status in STATUSES[1:]] + [("Pending", 1), ("Completed", 1)]
    jobs = [(saga, saga.attempt_count + added) for saga in sagas.values() for added in (0, 2)]
    jobs += [(sagas[status], ATTEMPTS[status] + 1) for status in ("Completed", "DeadLettered")]
    by_count = [
        (sagas[before], after, added)
        for before in STATUSES
        for after in STATUSES
        for added in (0, 1, 2)
        if (added != (before == "InProgress") if (before, after) in LEGAL else before != after or added)
    ]
    # By a result that says something else, or by none.
    by_result = [
        (running(result, attempts), after, 1)
        for result in ("Pending", "Leased", "Completed", "Failed")
        for after in ("Completed", "PendingRetry", "DeadLettered")
        for attempts in (0, 1)
        if result != ("Completed" if after == "Completed" else "Failed")
    ]
    early = [(running("Failed", attempts), "DeadLettered", 1) for attempts in (0, 1)]
    without_job = [(sagas[status], "InProgress", 0) for status in ("Pending", "PendingRetry")]
    buried = running("Failed", 2, with_letter=True)
    letters = [sagas[status] for status in ("Pending", "InProgress", "PendingRetry", "Completed")]
    letters += [running(result, 2) for result in ("Pending", "Leased", "Completed")] + [running("Failed", 1)]
    return [
        *((f"INSERT {SAGAS} status", insert_saga(pending, *birth)) for birth in births),
        *((f"INSERT {SAGAS} generation", insert_generation(saga, 1)) for saga in (pending, ended, last_failed)),
        (f"INSERT {SAGAS} generation", insert_generation(sagas["Completed"], 2)),
        *((f"INSERT {JOBS} status", insert_job(*job)) for job in jobs),
        *(
            (f"INSERT {JOBS} status", insert_job(pending, 1, status))
            for status in ("", "Leased", "Completed", "Failed")
        ),
        (f"INSERT {JOBS} status", insert_job(sagas["PendingRetry"], 2, attempt_at="2020-01-01")),
        *((f"UPDATE {JOBS} status", change_job(running("Pending"), status)) for status in ("", "Completed", "Failed")),
        *((f"UPDATE {JOBS} status", change_job(running("Leased"), status)) for status in ("", "Completed", "Failed")),
        *((f"UPDATE {JOBS} status", change_job(running("Failed"), status)) for status in ("", "Pending", "Completed")),
        *((f"UPDATE {SAGAS} status", change_saga(*change)) for change in [*by_count, *by_result, *early, *without_job]),
        (f"UPDATE {SAGAS} status", change_saga(last_failed, "DeadLettered", 1)),  # without a dead letter
        *((f"UPDATE {SAGAS} status", change_saga(buried, after, 1)) for after in ("Completed", "PendingRetry")),
        *((f"UPDATE {SAGAS} status", abandon(sagas[status])) for status in WAITING),  # without a request
        *((f"UPDATE {SAGAS} status", abandon(abandoned(status), "x")) for status in WAITING),
        *((f"UPDATE {SAGAS} status", abandon(abandoned(status, with_letter=False))) for status in WAITING),
        *((f"INSERT {JOBS} status", insert_job(abandoned(status), ATTEMPTS[status] + 1)) for status in WAITING),
        *((f"INSERT {LETTERS} saga_id", insert_letter(saga)) for saga in letters),
        (f"INSERT {LETTERS} saga_id", insert_letter(last_failed, event_id=pending.event_id)),
        (f"INSERT {LETTERS} saga_id", insert_letter(last_failed, subscription_id=pending.subscription_id)),
        *(
            (f"INSERT {REQUEUES} reason", insert_requeue(ended, *words))
            for words in (("", "r"), ("a", ""), ("a", "  "))
        ),
        *without_values(sagas),
        *stopping_a_loop(sagas),
    ]


def allowed(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    ready = {status: SagaFactory.create(status=status) for status in ("Pending", "PendingRetry")}
    for saga in ready.values():
        Job.objects.create(saga=saga, attempt_no=saga.attempt_count + 1, attempt_at=saga.next_attempt_at)
    return [
        (f"INSERT {SAGAS} status", insert_saga(sagas["Pending"])),
        (f"INSERT {SAGAS} generation", insert_generation(sagas["Completed"], 1)),
        *(
            (f"INSERT {JOBS} status", insert_job(sagas[status], ATTEMPTS[status] + 1))
            for status in ("Pending", "PendingRetry")
        ),
        *((f"UPDATE {SAGAS} status", change_saga(saga, "InProgress", 0)) for saga in ready.values()),
        (f"UPDATE {SAGAS} status", change_saga(running("Completed"), "Completed", 1)),
        (f"UPDATE {SAGAS} status", change_saga(running("Failed"), "PendingRetry", 1)),
        (f"UPDATE {SAGAS} status", change_saga(running("Failed", 2, with_letter=True), "DeadLettered", 1)),
        *((f"UPDATE {SAGAS} status", abandon(abandoned(status))) for status in WAITING),
        (f"INSERT {LETTERS} saga_id", insert_letter(running("Failed", 2))),
        (f"UPDATE {JOBS} settled_at", settle(running("Completed"))),
        (f"INSERT {REQUEUES} reason", insert_requeue(sagas["DeadLettered"], "anna", "fixed")),
    ]


def surprises(role: str, statements: list[tuple[str, Statement]], expected: Callable[[int], bool]) -> dict[str, int]:
    """What ends otherwise than expected, by its error code; a role without the privilege must be denied."""
    found = {}
    with connected_as(role) as other:
        for privilege, (what, sql, parameters) in statements:
            code = outcome(other, sql, parameters)
            if not (expected(code) if may(role, *privilege.split()) else code in DENIED):
                found[what] = code
    return found


@EVERY_ROLE
def test_no_role_can_write_what_the_state_machine_forbids(sagas: dict[str, Saga], role: str):
    statements = forbidden(sagas)
    before = [list(model.objects.order_by("id").values()) for model in (Saga, Job)]

    assert surprises(role, statements, REFUSED.__contains__) == {}

    assert len(statements) > 100
    assert [list(model.objects.order_by("id").values()) for model in (Saga, Job)] == before


@EVERY_ROLE
def test_a_role_can_do_its_legal_steps_without_privileges_for_what_the_triggers_read(sagas: dict[str, Saga], role: str):
    assert surprises(role, allowed(sagas), lambda code: code == 0) == {}
