"""No row that a role can write stops a loop, the metrics or the ingest: it is refused, set aside, or read as it is.

Each role's password may be stolen. So every column that a role may write gets values that no process writes, in a
session that has switched off whatever needs no privilege. After each, every step runs once.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, models, transaction

from events import declarations
from events.intake import publish
from events.models import Event, EventType
from events.routing import RouterStep
from jobs.step import CleanerStep
from sagas.create import correlation_ids, subscription_ids
from sagas.models import Saga
from sagas.orchestrator import Orchestrator
from subscriptions.models import EndpointHealth, EndpointRate, Subscription
from tests.conformance import world
from tests.factories import CustomerFactory, SagaFactory
from tests.support import legal_steps, rows
from tests.webhookhub.db.roles.declaration import columns
from tests.workflows import support as workflows
from webhookhub.db import clock, vendors
from webhookhub.db.roles import ROLES
from webhookhub.ids import new_uid
from webhookhub.stats import prometheus, readiness
from webhookhub.stats.models import COUNTED, MINUTE, Counter, Period, WorkflowPeriod
from workflows import services, versions
from workflows.tracked_types import CatchUp
from workflows.tracker import Tracker

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[3]
MODELS = {model._meta.db_table: model for model in apps.get_models()}
TIMES = ("0000-00-00", "2026-00-00", "1000-01-01", "9999-12-31 23:59:59.999999")
NUMBERS = (-1, 0, 2**31 - 1, 2**63 - 1)
TEXTS = ("", "\0", "x", "{", "[]", "5", '{"payment": 5}', "[" * 40_000, "\u202e" * 28, "a/b/c")
UIDS = ("", "z" * 32)
# Written and read by the console only; and columns that are treated as another one is.
OTHERS = {
    "api_keys",
    "audit_log_entries",
    "auth_group",
    "auth_group_permissions",
    "auth_user",
    "auth_user_groups",
    "auth_user_user_permissions",
    "django_admin_log",
    "django_session",
    "log_in_allowances",
    "recovery_codes",
    "second_factors",
    "sso_identities",
}
ALIKE = {("stats_periods", name) for name in COUNTED[1:]}
STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
Statement = tuple[str, str, list[Any]]


def granted(word: str, table: str) -> set[str]:
    return set().union(*(columns(role.name, word, table) for role in ROLES))


WRITABLE = [(word, table) for word in ("INSERT", "UPDATE") for table in sorted(MODELS) if granted(word, table)]


def values(field: models.Field[Any, Any]) -> tuple[Any, ...]:
    if isinstance(field, models.DateTimeField):
        return (None, *TIMES)
    if isinstance(field, models.UUIDField):
        return (None, *UIDS)
    if isinstance(field, models.BooleanField):
        return (None, 2)
    if isinstance(field, models.IntegerField | models.ForeignKey | models.DurationField):
        return (None, *NUMBERS)
    return (None, *TEXTS)


def fields(word: str, table: str) -> list[models.Field[Any, Any]]:
    names = granted(word, table)
    # A database gives the ids: see IDS_LEFT.
    own = [field for field in MODELS[table]._meta.concrete_fields if not isinstance(field, models.AutoField)]
    generated = vendors.generated_columns(connection, table)
    wanted = [field for field in own if field.column and field.column not in generated and names & {"", field.column}]
    return [field for field in wanted if (table, field.column) not in ALIKE]


def stored(table: str) -> list[dict[str, Any]]:
    """One row of each kind of fact, or the last row."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return list({(row.get("role"), row.get("origin")): row for row in found}.values())


def other_key(table: str) -> dict[str, Any]:
    """The values that make a copy of a row another row."""
    match table:
        case "events":
            return {"uid": new_uid().hex, "external_id": "other"}
        case "customers":
            return {"uid": new_uid().hex, "customer_key": "other"}
        case "subscriptions":
            return {"callback_url": "https://example.com/other", "verified": 0}
        case "webhook_delivery_sagas":
            return {"event_id": Event.objects.latest("id").pk}
        case "webhook_delivery_jobs":
            pending = Saga.objects.filter(status="Pending", jobs=None, abandoned_by=None).order_by("id")[0]
            return {"saga_id": pending.pk, "attempt_no": 1, "status": "Pending"}
        case "dead_letters":
            saga = Saga.objects.filter(status="InProgress")[0]
            return {"saga_id": saga.pk, "event_id": saga.event_id}
        case "endpoint_rates" | "endpoint_health":
            return {"callback_url": world.url("retry")}
        case "event_types" | "workflow_definitions" | "hub_processes":
            return {"name": "other"}
        case "saga_instances":
            new = {"status": "IN_PROGRESS", "version": 0, "steps": "{}"}
            return {"saga_id": new_uid().hex, "correlation_key": "other", **new}
        case "saga_facts":
            return {"idempotency_key": "other"}
        case "workflow_event_types":
            return {"event_type": "other"}
        case "workflow_inbox":
            return {"event_id": 1}
        case "delivery_requests":
            return {"uid": new_uid().hex, "request_token": "other"}
        case "stats_counters":
            return {"label": "other"}
        case "stats_periods" | "stats_workflow_periods":
            return {"shard": 5}
    return {}


def statements(word: str, table: str) -> Iterator[Statement]:
    for field in fields(word, table):
        for value in values(field):
            what = f"{table}.{field.column} {value!r:.20}"
            if word == "UPDATE":
                yield what, f"UPDATE IGNORE {table} SET {field.column} = %s", [value]
                continue
            names = granted("INSERT", table) - {""} or {each.column for each in fields(word, table)}
            for row in stored(table):
                copy = {name: row[name] for name in row if name in names}
                new = {**copy, **other_key(table), field.column: value}
                places = ", ".join(["%s"] * len(new))
                yield what, f"INSERT IGNORE INTO {table} ({', '.join(new)}) VALUES ({places})", list(new.values())


def seed() -> None:
    """Work for every step."""
    now = clock.now()
    rows.dead_letter("ended")
    world.subscribe("ok", "retry", "dead")
    subscription = Subscription.objects.get(callback_url=world.url("ok"))
    world.publish_some("a")
    SagaFactory.create(subscription=subscription)
    SagaFactory.create(subscription=subscription, status="PendingRetry", attempt_count=1)
    expired: Any = SagaFactory.create(subscription=subscription, status="InProgress")
    legal_steps.update(legal_steps.current_job(expired), status="Leased", lease_until=now - timedelta(hours=1))
    for result in ("Failed", "Completed"):
        saga: Any = SagaFactory.create(subscription=subscription, status="InProgress")
        legal_steps.finish(legal_steps.current_job(saga), result, now, None, None)
    parked: Any = SagaFactory.create(subscription=subscription)
    legal_steps.update(parked, next_attempt_at=datetime(9000, 1, 1, tzinfo=UTC))
    legal_steps.mark(SagaFactory.create(subscription=subscription))
    CustomerFactory.create()
    long_ago = now - timedelta(days=2)
    EndpointHealth.objects.create(
        callback_url=subscription.callback_url, failing_since=long_ago, last_error_code="http_500"
    )
    EndpointRate.objects.create(callback_url=subscription.callback_url, free_at=now)
    EventType.objects.create(name=world.TYPE)
    Counter.objects.create(name="workflow_steps", label="x/y", shard=0)
    Period.objects.create(period=MINUTE, starts_at=long_ago, subscription_id=subscription.pk, shard=0)
    WorkflowPeriod.objects.create(starts_at=now, workflow="order_submission", shard=0)
    rows.process("x", kind="router", heartbeat_at=long_ago)
    tracker = workflows.tracked()
    for key in "kjh":
        publish("order.submitted", {"order_id": key}, correlation_id=key)
    tracker.track(2)
    services.act(workflows.instance("k"), "closed", idempotency_key="k", actor="a", reason="r")


def run_everything() -> None:
    declarations.clear()
    correlation_ids.clear()
    subscription_ids.clear()
    tracker = Tracker(versions.in_force())
    steps: list[Callable[[], object]] = [
        lambda: CleanerStep().run(500),
        lambda: RouterStep().run(500),
        lambda: Orchestrator().run(500),
        world.deliver,
        lambda: Orchestrator().run(500),
        lambda: CatchUp().catch_up(500),
        lambda: tracker.track(500),
        lambda: tracker.touch(500),
        lambda: tracker.expire(500),
        prometheus.text,
        readiness._missing,
        lambda: publish(world.TYPE, {"n": 2}),
    ]
    for step in steps:
        step()


def is_accepted(sql: str, parameters: list[Any]) -> bool:
    """Whether the statement changes a row, in a session without strict mode and checks."""
    off = vendors.is_mariadb(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION sql_mode = ''{', check_constraint_checks = 0' * off}")
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return bool(cursor.rowcount)
    except DatabaseError:
        return False
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION sql_mode = '{STRICT}'{', check_constraint_checks = 1' * off}")


def failure() -> str:
    """What a step fails with; empty if none does."""
    try:
        with transaction.atomic():
            run_everything()
    except Exception as error:  # noqa: BLE001  # whatever would stop a loop
        frames = traceback.extract_tb(error.__traceback__)
        own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if ROOT in Path(f.filename).parents]
        return f"{type(error).__name__}: {str(error)[:100]} at {own[-3:]}"
    return ""


@pytest.mark.parametrize(("word", "table"), [pair for pair in WRITABLE if pair[1] not in OTHERS])
def test_no_row_stops_a_step(word: str, table: str):
    seed()
    found, accepted = {}, 0
    for what, sql, parameters in list(statements(word, table)):
        with transaction.atomic():
            if is_accepted(sql, parameters):
                accepted += 1
                if why := failure():
                    found[what] = why
            transaction.set_rollback(True)
    assert found == {}, json.dumps(found, indent=1)
    assert failure() == ""
    assert accepted or word == "UPDATE" or table in ("dead_letter_requeues", "dead_letters")
