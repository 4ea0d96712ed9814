"""A server stores '', 0 or a zero date for NULL in a NOT NULL column, after the triggers, if the session is not strict
or the statement says IGNORE: the triggers refuse NULL themselves, and times that are no dates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import DatabaseError, connection

from events.models import Event
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support.copied_rows import copied, execute, new_row
from webhookhub.db import clock
from webhookhub.db.errors import code_of
from webhookhub.db.triggers import Fill, Refusal, Required, Rule, declared

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db]

# By a trigger, not by the server's own check of NULL, which a session may soften.
REFUSED = 1644
INVALID_JSON = 3140
TABLES = (
    "customers",
    "dead_letter_requeues",
    "dead_letters",
    "delivery_requests",
    "endpoint_health",
    "endpoint_rates",
    "events",
    "subscriptions",
    "webhook_delivery_jobs",
    "webhook_delivery_sagas",
)
# Only their rows are kept as they are: nothing reads their NULLs to decide on a delivery.
RECORDS = {
    "audit_log_entries",
    "hub_processes",
    "saga_facts",
    "saga_instances",
    "workflow_definitions",
    "workflow_event_types",
}
MODELS = {model._meta.db_table: model for model in apps.get_models()}
# The trigger itself replaces NULL there.
FILLED = {(trigger.table, trigger.column) for trigger in declared() if isinstance(trigger, Fill)}
TIMES = [
    ("INSERT", "dead_letter_requeues", "requested_at"),
    ("INSERT", "delivery_requests", "requested_at"),
    ("INSERT", "delivery_requests", "due_at"),
    ("INSERT", "webhook_delivery_jobs", "attempt_at"),
    ("INSERT", "webhook_delivery_sagas", "next_attempt_at"),
    ("INSERT", "webhook_delivery_sagas", "created_at"),
    ("INSERT", "webhook_delivery_sagas", "updated_at"),
    ("INSERT", "endpoint_rates", "free_at"),
    ("INSERT", "endpoint_health", "failing_since"),
    ("UPDATE", "webhook_delivery_jobs", "finished_at"),
    ("UPDATE", "webhook_delivery_sagas", "next_attempt_at"),
    ("UPDATE", "webhook_delivery_sagas", "updated_at"),
    ("UPDATE", "endpoint_rates", "free_at"),
    ("UPDATE", "endpoint_health", "failing_since"),
    ("UPDATE", "subscriptions", "verification_at"),
    ("UPDATE", "customers", "disabled_at"),
]


@pytest.fixture
def lax() -> Iterator[None]:
    """Whatever a session may switch off without a privilege is off."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.sql_mode")
        [before] = cursor.fetchone()
        off = ", check_constraint_checks = 0" if connection.mysql_is_mariadb else ""  # type: ignore[attr-defined]
        cursor.execute(f"SET SESSION sql_mode = ''{off}")
        try:
            yield
        finally:
            cursor.execute(f"SET SESSION sql_mode = %s{off.replace('0', '1')}", [before])


def not_null(table: str) -> set[str]:
    fields = MODELS[table]._meta.concrete_fields
    return {field.column for field in fields if not (field.null or field.primary_key or field.generated)}


def rules(table: str, event: str) -> list[object]:
    triggers = [trigger for trigger in declared() if isinstance(trigger, Refusal | Fill) and trigger.table == table]
    return [rule for each in triggers if getattr(each, "event", "INSERT") == event for rule in each.rules]


def refused_null(table: str, event: str) -> list[str]:
    return [column for rule in rules(table, event) if isinstance(rule, Required) for column in rule.columns]


def always_protected(table: str) -> set[str]:
    """The columns that no update may change; NULL is a change."""
    always = [rule for rule in rules(table, "UPDATE") if isinstance(rule, Rule) and rule.when == "1 = 1"]
    strict = [rule for rule in always if not (rule.unless or rule.unless_exists or rule.unless_changed)]
    return {column for rule in strict for column in (*rule.protects, *rule.protects_values)}


def test_every_table_with_a_state_machine_is_among_them():
    guarded = {trigger.table for trigger in declared() if isinstance(trigger, Refusal) and trigger.event != "DELETE"}
    assert guarded - RECORDS == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_a_new_row_has_every_required_column(table: str):
    filled = {column for name, column in FILLED if name == table}
    assert sorted(refused_null(table, "INSERT")) == sorted(not_null(table) - filled)


@pytest.mark.parametrize("table", TABLES)
def test_a_changed_row_has_every_required_column(table: str):
    assert sorted(refused_null(table, "UPDATE")) == sorted(not_null(table) - always_protected(table))


def refusals(statements: dict[str, tuple[str, list[object]]]) -> dict[str, int | None]:
    """What is not refused by a trigger: its error code, or None."""
    found: dict[str, int | None] = {}
    for what, (sql, parameters) in statements.items():
        try:
            execute(sql, parameters)
            found[what] = None
        except DatabaseError as error:
            if code_of(error) != REFUSED:
                found[what] = code_of(error)
    return found


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("insert", ["INSERT", "INSERT IGNORE", "REPLACE"])
@pytest.mark.parametrize("table", TABLES)
def test_null_is_refused_in_a_new_row(table: str, insert: str):
    pk, changes = new_row(table)
    columns = refused_null(table, "INSERT")
    assert columns
    assert refusals({c: copied(table, pk, {**changes, c: None}, insert) for c in columns}) == {}
    assert execute(*copied(table, pk, changes, insert)) == 1


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("update", ["UPDATE", "UPDATE IGNORE"])
@pytest.mark.parametrize("table", TABLES)
def test_null_is_refused_in_a_changed_row(table: str, update: str):
    pk, _ = new_row(table)
    sql = f"{update} {table} SET {{}} = NULL WHERE id = %s"
    assert refusals({c: (sql.format(c), [pk]) for c in sorted(not_null(table))}) == {}


@pytest.mark.parametrize("table", TABLES)
def test_null_is_refused_even_if_a_strict_session_ignores_errors(table: str):
    pk, _ = new_row(table)
    sql = f"UPDATE IGNORE {table} SET {{}} = NULL WHERE id = %s"
    assert refusals({c: (sql.format(c), [pk]) for c in sorted(not_null(table))}) == {}


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("time", ["0000-00-00", "2026-00-00 00:00:00", "no time", "9999-12-31 23:59:59"])
@pytest.mark.parametrize(("event", "table", "column"), TIMES)
def test_a_time_is_a_date_of_the_calendar(event: str, table: str, column: str, time: str):
    pk, changes = new_row(table)
    update = (f"UPDATE {table} SET {column} = %s WHERE id = %s", [time, pk])
    statement = copied(table, pk, {**changes, column: time}) if event == "INSERT" else update
    assert refusals({f"{table} {column}": statement}) == {}


@pytest.mark.usefixtures("lax")
def test_labels_are_an_object():
    pk, changes = new_row("events")
    wrong = ["", "x", "{", "[]", "5", "null", '"a"']
    statements = {text: copied("events", pk, {**changes, "labels": text}) for text in wrong}
    # MySQL's own type refuses what is no JSON.
    assert set(refusals(statements).values()) <= {INVALID_JSON}
    assert execute(*copied("events", pk, {**changes, "labels": '{"a": "b"}'})) == 1
    assert Event.objects.count() == 2


@pytest.mark.usefixtures("lax")
def test_a_subscription_keeps_its_id():
    pk, _ = new_row("subscriptions")
    assert refusals({"id": ("UPDATE subscriptions SET id = id + 1 WHERE id = %s", [pk])}) == {}


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("table", ["customers", "endpoint_rates", "subscriptions"])
def test_a_row_does_not_use_up_the_ids(table: str):
    pk, changes = new_row(table)
    sql, parameters = copied(table, pk, changes)
    sql = sql.replace("(", "(id, ", 1).replace("VALUES (", "VALUES (%s, ")
    assert refusals({"id": (sql, [2**63 - 1, *parameters])}) == {}


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("given", ["NULL", "''", "DEFAULT"])
def test_an_event_without_a_correlation_id_gets_its_uid(given: str):
    execute(f"INSERT INTO events (event_type, payload, correlation_id) VALUES ('a', '{{}}', {given})", [])
    event = Event.objects.get()
    assert event.correlation_id == str(event.uid)


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("column", ["requested_by", "reason", "request_token"])
@pytest.mark.parametrize("text", ["", "  ", "\t", "\n", " \r\n\t "])
@pytest.mark.parametrize("table", ["dead_letter_requeues", "delivery_requests"])
def test_a_person_gives_a_name_and_a_reason(table: str, text: str, column: str):
    pk, changes = new_row(table)
    assert refusals({repr(text): copied(table, pk, {**changes, column: text})}) == {}


@pytest.mark.usefixtures("lax")
@pytest.mark.parametrize("time", ["NULL", "'0000-00-00'", "verification_at"])
def test_a_verification_has_its_time(time: str):
    subscription = SubscriptionFactory.create(verified=False, verification_at=clock.now())
    sql = "UPDATE subscriptions SET verified = 1, verification_at = {} WHERE id = %s"
    assert refusals({time: (sql.format(time), [subscription.pk])}) == {}
    assert execute(sql.format("'2026-01-01'"), [subscription.pk]) == 1
    assert Subscription.objects.get().verified
    without = "UPDATE subscriptions SET verification_at = NULL WHERE id = %s"
    assert refusals({"kept": (without, [subscription.pk])}) == {}
    cleared = "UPDATE subscriptions SET verified = 0, verification_at = NULL WHERE id = %s"
    assert execute(cleared, [subscription.pk]) == 1
