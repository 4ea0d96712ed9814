"""A session on MariaDB may switch check constraints off without any privilege: triggers refuse the same rows there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, models

from events.models import Event
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import JobFactory, SagaFactory
from tests.support import legal_steps
from tests.support.copied_rows import copied, execute, new_row
from webhookhub.db import vendors
from webhookhub.db.triggers import Check, Fill, Refusal, declared

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

CONSTRAINTS = {
    (model._meta.db_table, constraint.name): model
    for model in apps.get_models()
    for constraint in model._meta.constraints
    if isinstance(constraint, models.CheckConstraint)
}
# Every column of the constraint is protected from updates by another rule.
INSERT_ONLY = {
    "chk_customer_key",
    "chk_request_uid",
    "chk_request_conditions",
    "chk_event_uid",
    "chk_event_correlation_id",
    "chk_event_payload",
    "chk_event_created_at",
    "chk_dead_payload",
    "chk_dead_failed_at",
    "chk_saga_limit_positive",
    "chk_saga_base_delay",
    "chk_saga_retry_delays",
    "chk_requeue_base_delay",
    "chk_requeue_retry_delays",
}
# A new saga is Pending.
UPDATE_ONLY = {"chk_saga_retry_below_limit"}


@pytest.fixture
def _without_constraints() -> Iterator[None]:
    if vendors.checks_switched_off(connection) is None:
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET check_constraint_checks = 0")
        try:
            yield
        finally:
            cursor.execute("SET check_constraint_checks = 1")


def held_by_triggers(event: str) -> set[tuple[str, str]]:
    """(table, constraint)"""
    checked = [trigger for trigger in declared() if isinstance(trigger, Refusal | Fill)]
    triggers = [trigger for trigger in checked if getattr(trigger, "event", "INSERT") == event]
    return {(trigger.table, rule.name) for trigger in triggers for rule in trigger.rules if isinstance(rule, Check)}


def test_every_check_constraint_is_a_rule_of_triggers_too():
    assert CONSTRAINTS
    assert held_by_triggers("INSERT") == {key for key in CONSTRAINTS if key[1] not in UPDATE_ONLY}
    assert held_by_triggers("UPDATE") == {key for key in CONSTRAINTS if key[1] not in INSERT_ONLY}


def test_a_rule_reads_the_columns_of_its_constraint():
    for trigger in declared():
        for rule in trigger.rules if isinstance(trigger, Refusal | Fill) else ():
            if isinstance(rule, Check):
                model = CONSTRAINTS[trigger.table, rule.name]
                [constraint] = [each for each in model._meta.constraints if each.name == rule.name]
                assert isinstance(constraint, models.CheckConstraint)
                sql = str(constraint.constraint_sql(model, connection.schema_editor()))
                columns = [field.column for field in model._meta.concrete_fields]
                quoted = {column for column in columns if connection.ops.quote_name(column) in sql}
                assert set(rule.columns) == quoted, rule.name


@dataclass(frozen=True)
class Violation:
    """`values` break the constraint in a row that is otherwise as `make_row` gives it."""

    table: str
    constraint: str
    values: dict[str, Any]


URL = {"callback_url": "http://example.com/hook"}
SCHEDULES = {
    "requeue": "dead_letter_requeues",
    "saga": "webhook_delivery_sagas",
    "sub": "subscriptions",
    "endpoint": "endpoints",
}
DELAYS = ("garbage", "", "0", "5,,6", "5,", ",5", "5;6", "5.5", "-5", "1234567", "5,06")
VIOLATIONS = [
    *(
        Violation(table, f"chk_{noun}_base_delay", {"base_delay": delay})
        for noun, table in SCHEDULES.items()
        for delay in (-1, timedelta(days=30) // timedelta(microseconds=1) + 1)
    ),
    *(
        Violation(table, f"chk_{noun}_retry_delays", {"retry_delays": delays})
        for noun, table in SCHEDULES.items()
        for delays in DELAYS
    ),
    Violation("customers", "chk_customer_key", {"customer_key": ""}),
    Violation("delivery_requests", "chk_request_uid", {"uid": None}),
    Violation("delivery_requests", "chk_request_conditions", {"conditions": "no JSON"}),
    Violation("events", "chk_event_uid", {"uid": None}),
    *(
        Violation("events", "chk_event_correlation_id", {"correlation_id": f"a{control}b"})
        for control in ("\t", "\n", "\x1b", "\x7f", "\x9b")
    ),
    Violation("events", "chk_event_payload", {"payload": "no JSON"}),
    Violation("events", "chk_event_payload", {"payload": ""}),
    Violation("events", "chk_event_created_at", {"created_at": "1969-12-31 00:00:00"}),
    Violation("dead_letters", "chk_dead_payload", {"payload_snapshot": "no JSON"}),
    Violation("dead_letters", "chk_dead_failed_at", {"failed_at": "1969-12-31 00:00:00"}),
    *(
        Violation(table, f"chk_{noun}_{name}", values)
        for noun, table in (("sub", "subscriptions"), ("endpoint", "endpoints"))
        for name, values in (
            ("callback_https", URL),
            ("limit_positive", {"max_retry_limit": 0}),
            ("rate_positive", {"rate_limit": 0}),
            ("one_schedule", {"retry_delays": "1,2", "max_retry_limit": 3}),
            ("one_schedule", {"retry_delays": "1,2", "base_delay": 1000000}),
        )
    ),
    Violation("webhook_delivery_sagas", "chk_saga_limit_positive", {"max_retry_limit": 0}),
    Violation("webhook_delivery_sagas", "chk_saga_retry_below_limit", {"status": "PendingRetry", "attempt_count": 3}),
]
IDS = [f"{each.constraint} {' '.join(each.values)}" for each in VIOLATIONS]


def test_every_check_constraint_has_a_row_that_violates_it():
    assert {(each.table, each.constraint) for each in VIOLATIONS} == set(CONSTRAINTS)


@pytest.mark.usefixtures("_without_constraints")
@pytest.mark.parametrize("table", sorted({table for table, _ in CONSTRAINTS}))
def test_a_row_that_violates_nothing_is_accepted(table: str):
    pk, changes = new_row(table)
    assert execute(*copied(table, pk, changes)) == 1


@pytest.mark.usefixtures("_without_constraints")
@pytest.mark.parametrize(
    "violation", [each for each in VIOLATIONS if each.constraint not in UPDATE_ONLY],
    ids=[name for name in IDS if name.split()[0] not in UPDATE_ONLY],
)  # fmt: skip
def test_a_new_row_is_refused(violation: Violation):
    pk, changes = new_row(violation.table)
    with pytest.raises(DatabaseError):
        execute(*copied(violation.table, pk, {**changes, **violation.values}))


@pytest.mark.usefixtures("_without_constraints")
@pytest.mark.parametrize("violation", VIOLATIONS, ids=IDS)
def test_a_change_is_refused(violation: Violation):
    if violation.constraint in UPDATE_ONLY:
        saga = SagaFactory.create(status="InProgress", attempt_count=2)
        JobFactory(saga=saga, attempt_no=3, status="Failed")
        pk = saga.pk
    else:
        pk, _ = new_row(violation.table)
    assignments = ", ".join(f"{column} = %s" for column in violation.values)
    with pytest.raises(DatabaseError):
        execute(f"UPDATE {violation.table} SET {assignments} WHERE id = %s", [*violation.values.values(), pk])


@pytest.mark.usefixtures("_without_constraints")
def test_the_hub_itself_works_without_the_constraints():
    saga = SagaFactory.create(status="InProgress", attempt_count=2)
    JobFactory(saga=saga, attempt_no=3, status="Failed")
    legal_steps.dead_letter(saga)
    legal_steps.update(saga, status="DeadLettered", attempt_count=3)
    assert (Event.objects.count(), Subscription.objects.count(), Saga.objects.count()) == (1, 1, 1)
