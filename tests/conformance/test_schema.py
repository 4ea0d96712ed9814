"""The tables have the columns, types and indexes of the specification, which are written out here by hand."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from webhookhub.db import vendors

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

# What the specification's types are on a server. MySQL has no TIMESTAMPTZ; sessions are in UTC (test_requirements.py).
TYPES = {
    "BIGINT": r"bigint(\(20\))?",
    "INT": r"int(\(1[01]\))?( unsigned)?",
    "BOOLEAN": r"tinyint\(1\)",
    "TIMESTAMPTZ": r"datetime\(6\)",
    "VARCHAR(100)": r"varchar\(100\)",
    "VARCHAR(500)": r"varchar\(500\)",
    "JSON": r"json|longtext",
}


def check_columns(table: str, specified: dict[str, str]) -> None:
    """`specified`: column → type; a trailing `?` allows NULL. SQLite has no such types, so there only names count."""
    with connection.cursor() as cursor:
        stored = {column.name: column for column in connection.introspection.get_table_description(cursor, table)}
        types = {}
        if vendors.is_server(connection):
            cursor.execute(
                "SELECT column_name, column_type FROM information_schema.columns "
                "WHERE table_schema = DATABASE() AND table_name = %s",
                [table],
            )
            types = dict(cursor.fetchall())
        assert connection.introspection.get_primary_key_column(cursor, table) == "id"
    assert specified.keys() <= stored.keys()
    for name, kind in specified.items():
        if kind.endswith("?"):
            assert stored[name].null_ok, name
        if types:
            pattern = _enum(kind) if kind.startswith("ENUM") else TYPES[kind.removesuffix("?")]
            assert re.fullmatch(pattern, types[name]), (name, kind, types[name])


def _enum(kind: str) -> str:
    return "enum\\(" + ",".join(f"'{word}'" for word in kind.split()[1:]) + "\\)"


def check_indexes(table: str, specified: dict[str, str]) -> None:
    """`specified`: name → columns; UNIQUE in front of them for a unique key."""
    with connection.cursor() as cursor:
        stored = connection.introspection.get_constraints(cursor, table)
    for name, columns in specified.items():
        found = stored[name]
        assert ("UNIQUE " if found["unique"] else "") + ", ".join(found["columns"]) == columns, name


@pytest.mark.requirement("R1-2.1a", "R1-2.1b", "R1-2.1c", "R1-2.1d", "R1-2.1e", "R1-2.1f", "R1-2.1g", "R1-2.1h")
def test_columns_of_sagas():
    check_columns(
        "webhook_delivery_sagas",
        {
            "id": "BIGINT",
            "event_id": "BIGINT",
            "subscription_id": "BIGINT",
            "status": "ENUM Pending InProgress PendingRetry Completed DeadLettered",
            "attempt_count": "INT",
            "next_attempt_at": "TIMESTAMPTZ",
            "final_error_code": "VARCHAR(100)?",
            "created_at": "TIMESTAMPTZ",
            "updated_at": "TIMESTAMPTZ",
        },
    )


@pytest.mark.requirement("R1-2.2a", "R1-2.2b", "R1-2.2c", "R1-2.2d")
def test_indexes_of_sagas():
    check_indexes(
        "webhook_delivery_sagas",
        {
            "idx_saga_event": "event_id, subscription_id",
            "idx_saga_status_retry": "status, next_attempt_at",
            "idx_saga_status": "status",
            # With the generation, so that a requeue may add a saga for the same pair.
            "uniq_saga_event_subscription": "UNIQUE event_id, subscription_id, generation",
        },
    )


@pytest.mark.requirement("R2-2.1a", "R2-2.1b", "R2-2.1c", "R2-2.1d", "R2-2.1e", "R2-2.1f", "R2-2.1g")
def test_columns_of_jobs():
    check_columns(
        "webhook_delivery_jobs",
        {
            "id": "BIGINT",
            "saga_id": "BIGINT",
            "status": "ENUM Pending Leased Completed Failed",
            "lease_until": "TIMESTAMPTZ",
            "attempt_at": "TIMESTAMPTZ",
            "response_status": "INT?",
            "error_code": "VARCHAR(100)?",
        },
    )


@pytest.mark.requirement("R2-2.1h", "R2-2.1i", "R2-2.1j")
def test_indexes_of_jobs():
    check_indexes(
        "webhook_delivery_jobs",
        {
            "idx_job_saga": "saga_id",
            "idx_job_status_lease": "status, lease_until",
            "uniq_job_saga_attempt": "UNIQUE saga_id, attempt_at",
        },
    )


@pytest.mark.requirement("R2-3.1a", "R2-3.1b", "R2-3.1c", "R2-3.1d", "R2-3.1e", "R2-3.1f")
def test_columns_of_dead_letters():
    check_columns(
        "dead_letters",
        {
            "id": "BIGINT",
            "saga_id": "BIGINT",
            "event_id": "BIGINT",
            "subscription_id": "BIGINT",
            "final_error_code": "VARCHAR(100)",
            "failed_at": "TIMESTAMPTZ",
            "payload_snapshot": "JSON",
        },
    )


@pytest.mark.requirement("R2-3.1g", "R2-3.1h")
def test_indexes_of_dead_letters():
    check_indexes("dead_letters", {"idx_dead_saga": "saga_id", "idx_dead_event": "event_id"})


@pytest.mark.requirement("R3-1.2a", "R3-1.2b", "R3-1.2c", "R3-1.2d")
def test_columns_of_events():
    check_columns(
        "events",
        {"id": "BIGINT", "event_type": "VARCHAR(100)", "created_at": "TIMESTAMPTZ", "payload": "JSON"},
    )


@pytest.mark.requirement("R3-1.2e", "R3-1.2f")
def test_indexes_of_events():
    check_indexes("events", {"idx_event_created": "created_at", "idx_event_type": "event_type, created_at"})


@pytest.mark.requirement("R3-2.2a", "R3-2.2b", "R3-2.2c", "R3-2.2d", "R3-2.2e", "R3-2.2f")
def test_columns_of_subscriptions():
    check_columns(
        "subscriptions",
        {
            "id": "BIGINT",
            "event_type": "VARCHAR(100)",
            "callback_url": "VARCHAR(500)",
            "active": "BOOLEAN",
            "verified": "BOOLEAN",
            "created_at": "TIMESTAMPTZ",
            "updated_at": "TIMESTAMPTZ",
        },
    )


@pytest.mark.requirement("R3-2.2g", "R3-2.2h")
def test_indexes_of_subscriptions():
    check_indexes("subscriptions", {"idx_sub_event_type": "event_type", "idx_sub_active": "active"})


@pytest.mark.requirement("R5-3.2a", "R5-3.2b", "R5-3.2c", "R5-3.2d")
def test_columns_of_workflow_runs():
    """ADR-025 names the columns and statuses, and no types."""
    check_columns("saga_instances", {"status": "ENUM IN_PROGRESS COMPLETED COMPENSATING COMPENSATED FAILED"})
    with connection.cursor() as cursor:
        stored = {column.name for column in connection.introspection.get_table_description(cursor, "saga_instances")}
    assert stored >= {
        *("saga_id", "saga_type", "aggregate_id", "current_step", "status"),
        *("started_at", "completed_at", "error_message", "compensation_started_at"),
    }
