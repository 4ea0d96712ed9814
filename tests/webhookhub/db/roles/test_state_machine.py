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
from sagas.transitions import LEGAL, STATUSES, WITH_DEAD_LETTER
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db.errors import code_of
from webhookhub.db.roles import ROLES

from .accounts import connected_as
from .declaration import may

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("granted", "committed")]

REFUSED, DENIED = 1644, {1142, 1143}
SAGAS, JOBS = "webhook_delivery_sagas", "webhook_delivery_jobs"
SAGA_COLUMNS = "event_id, subscription_id, generation, status, attempt_count, max_retry_limit, base_delay"
LETTERS = "dead_letters"
LETTER_COLUMNS = "saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot"
JOB_COLUMNS = "saga_id, attempt_no, status, attempt_at"
ATTEMPTS = {"Pending": 0, "InProgress": 1, "PendingRetry": 1, "Completed": 2, "DeadLettered": 2}
EVERY_ROLE = pytest.mark.parametrize("role", [role.name for role in ROLES])
Statement = tuple[str, str, tuple[Any, ...]]


def outcome(other: BaseDatabaseWrapper, sql: str, parameters: tuple[Any, ...]) -> int:
    """0 or the server's error code; nothing stays."""
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute(sql, parameters)
            assert cursor.rowcount == 1
        return 0
    except DatabaseError as error:
        return code_of(error) or -1
    finally:
        other.rollback()
        other.set_autocommit(True)


def insert_saga(saga: Saga, status: str, attempts: int, generation: int) -> Statement:
    values = (EventFactory.create().id, saga.subscription_id, generation, status, attempts)
    what = f"create a saga {status} with {attempts} attempts, generation {generation}"
    return what, f"INSERT INTO {SAGAS} ({SAGA_COLUMNS}) VALUES (%s, %s, %s, %s, %s, 3, 1)", values


def insert_job(saga: Saga, attempt_no: int, status: str = "Pending") -> Statement:
    sql = f"INSERT INTO {JOBS} ({JOB_COLUMNS}) VALUES (%s, %s, %s, '2026-01-01')"
    return f"create job {attempt_no} {status} of a saga {saga.status}", sql, (saga.id, attempt_no, status)


def change_saga(saga: Saga, status: str, added: int) -> Statement:
    sql = f"UPDATE {SAGAS} SET status = %s, attempt_count = attempt_count + {added} WHERE id = %s"
    return f"{saga.status} to {status}, {added} attempts more", sql, (status, saga.id)


def insert_letter(saga: Saga, event_id: int | None = None, subscription_id: int | None = None) -> Statement:
    values = (saga.id, event_id or saga.event_id, subscription_id or saga.subscription_id)
    sql = f"INSERT INTO {LETTERS} ({LETTER_COLUMNS}) VALUES (%s, %s, %s, 'x', '2026-01-01', '{{}}')"
    return f"create a dead letter {values} of a saga {saga.status}", sql, values


@pytest.fixture
def sagas() -> dict[str, Saga]:
    """One of each status; the saga in progress has a dead letter, so that only its lack is no reason to refuse."""
    subscription = SubscriptionFactory.create()
    found = {
        status: SagaFactory.create(subscription=subscription, status=status, attempt_count=attempts)
        for status, attempts in ATTEMPTS.items()
    }
    legal_steps.dead_letter(found["InProgress"])
    return found


def forbidden(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    """(privilege and table, statement)"""
    pending, running = sagas["Pending"], SagaFactory.create(status="InProgress")
    births = [(status, 0, 0) for status in STATUSES[1:]] + [("Pending", 1, 0), ("Pending", 0, 1), ("Completed", 1, 0)]
    jobs = [(saga, saga.attempt_count + added) for saga in sagas.values() for added in (0, 2)]
    jobs += [(sagas[status], ATTEMPTS[status] + 1) for status in ("Completed", "DeadLettered")]
    changes = [
        (sagas[before], after, added)
        for before in STATUSES
        for after in STATUSES
        for added in (0, 1, 2)
        if (added != (before == "InProgress") if (before, after) in LEGAL else before != after or added)
    ]
    return [
        *((f"INSERT {SAGAS}", insert_saga(pending, *birth)) for birth in births),
        *((f"INSERT {JOBS}", insert_job(*job)) for job in jobs),
        *((f"INSERT {JOBS}", insert_job(pending, 1, status)) for status in ("Leased", "Completed", "Failed")),
        *((f"UPDATE {SAGAS}", change_saga(*change)) for change in changes),
        (f"UPDATE {SAGAS}", change_saga(running, "DeadLettered", 1)),  # without a dead letter
        *((f"INSERT {LETTERS}", insert_letter(sagas[status])) for status in STATUSES if status not in WITH_DEAD_LETTER),
        (f"INSERT {LETTERS}", insert_letter(running, event_id=pending.event_id)),
        (f"INSERT {LETTERS}", insert_letter(running, subscription_id=pending.subscription_id)),
    ]


def allowed(sagas: dict[str, Saga]) -> list[tuple[str, Statement]]:
    changes = [(sagas[before], after, int(before == "InProgress")) for before, after in LEGAL]
    return [
        (f"INSERT {SAGAS}", insert_saga(sagas["Pending"], "Pending", 0, 0)),
        *(
            (f"INSERT {JOBS}", insert_job(sagas[status], ATTEMPTS[status] + 1))
            for status in ("Pending", "PendingRetry")
        ),
        *((f"UPDATE {SAGAS}", change_saga(*change)) for change in changes),
        (f"INSERT {LETTERS}", insert_letter(SagaFactory.create(status="InProgress"))),
    ]


def surprises(role: str, statements: list[tuple[str, Statement]], expected: Callable[[int], bool]) -> dict[str, int]:
    """What ends otherwise than expected, by its error code; a role without the privilege must be denied."""
    found = {}
    with connected_as(role) as other:
        for privilege, (what, sql, parameters) in statements:
            word, table = privilege.split()
            code = outcome(other, sql, parameters)
            has_privilege = may(role, word, table, "saga_id" if table == LETTERS else "status")
            if not (expected(code) if has_privilege else code in DENIED):
                found[what] = code
    return found


@EVERY_ROLE
def test_no_role_can_write_what_the_state_machine_forbids(sagas: dict[str, Saga], role: str):
    before = list(Saga.objects.order_by("id").values())
    statements = forbidden(sagas)

    assert surprises(role, statements, lambda code: code == REFUSED) == {}

    assert len(statements) > 60
    assert list(Saga.objects.order_by("id").values())[: len(before)] == before
    assert not Job.objects.exists()


@EVERY_ROLE
def test_a_role_can_do_its_legal_steps_without_privileges_for_what_the_triggers_read(sagas: dict[str, Saga], role: str):
    assert surprises(role, allowed(sagas), lambda code: code == 0) == {}
