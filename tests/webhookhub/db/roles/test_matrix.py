"""Every role tries every statement on every table of a real server: the declared ones work, all others are denied.

The expectation comes from the declaration, which test_specification.py compares with the specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.support import rows
from tests.workflows import support as workflows
from webhookhub.db.errors import code_of
from webhookhub.db.roles import ROLES

from .accounts import connected_as
from .declaration import may

pytestmark = pytest.mark.mysql_family

DENIED = {1142, 1143}
DUPLICATE = 1062
REFUSED = 1644
REFERENCED = 1451

Table = dict[str, Any]


@pytest.fixture
def tables(granted: None, committed: None) -> dict[str, Table]:
    """Every table of the database, including Django's, with the values of one row."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.contrib.sessions.models import Session

    from api.models import ApiKey
    from deadletters.models import DeadLetter, Requeue
    from events.intake import publish
    from events.models import EventType
    from sagas.models import ABANDON, DeliveryRequest
    from subscriptions.endpoint_models import Endpoint
    from subscriptions.models import Customer, EndpointHealth, EndpointRate
    from webhookhub.accounts.models import Allowance, Identity, RecoveryCode, SecondFactor
    from webhookhub.auditlog.models import Entry
    from webhookhub.db import clock
    from webhookhub.stats.models import MINUTE, Counter, Period, WorkflowPeriod
    from workflows import services

    rows.one_of_each()
    Requeue.objects.create(
        dead_letter=DeadLetter.objects.get(), requested_by="a", reason="r", request_token="t",
        max_retry_limit=3, base_delay=timedelta(seconds=1),
    )  # fmt: skip
    DeliveryRequest.objects.create(
        kind=ABANDON, conditions="{}", max_saga_id=1, requested_by="a", reason="r", request_token="t"
    )
    ApiKey.objects.create(key_id="k", secret_sha256="s", name="n", scopes="read", created_by="a")
    Entry.objects.create(actor="a", via="console", action="x", object_type="x", object_name="x", details="{}")
    shared = Endpoint.objects.all()[0]
    EndpointHealth.objects.create(
        endpoint=shared, callback_url="https://localhost/", failing_since=clock.now(), last_error_code="timeout"
    )
    Counter.objects.create(name="n", label="l", shard=0)
    Period.objects.create(period=MINUTE, starts_at=clock.now(), subscription_id=1, shard=0)
    WorkflowPeriod.objects.create(starts_at=clock.now(), workflow="order_submission", shard=0)
    Customer.objects.create(customer_key="acme")
    EventType.objects.create(name="order.created")  # a trigger adds the version
    EndpointRate.objects.create(endpoint=shared, callback_url="https://a.example/", free_at=clock.now())
    tracker = workflows.tracked()
    publish("order.submitted", {}, correlation_id="k")
    tracker.track(10)
    publish("order.submitted", {}, correlation_id="k")
    services.act(workflows.instance("k"), "closed", idempotency_key="k", actor="a", reason="r")
    Allowance.objects.create(bucket="name-1")
    user = User.objects.create_user("anna")
    SecondFactor.objects.create(user=user, kind="totp", name="n", totp_user_id=user.pk, data="d")
    RecoveryCode.objects.create(user=user, code_sha256="c")
    Identity.objects.create(user=user, issuer="i", subject="s")
    user.groups.add(Group.objects.get(name="support"))
    user.user_permissions.add(Permission.objects.order_by("pk")[0])
    Session.objects.create(session_key="k", session_data="", expire_date=clock.now())
    LogEntry.objects.create(user=user, content_type=ContentType.objects.order_by("pk")[0], action_flag=1)
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        found = {}
        for name in names:
            cursor.execute(f"SELECT * FROM {name} LIMIT 1")
            values = cursor.fetchone()
            assert values is not None, f"{name} is empty: the test needs a row"
            found[name] = dict(zip([column[0] for column in cursor.description], values, strict=True))
    # Generated columns: no statement may set them.
    del found["webhook_delivery_jobs"]["active_saga_id"]
    del found["webhook_delivery_sagas"]["parked_subscription_id"]
    del found["subscriptions"]["existing"]
    found["subscriptions"]["verified"] = 0  # a new subscription is never verified
    return found


def outcome(other: BaseDatabaseWrapper, sql: str, parameters: list[Any] | None = None) -> int:
    """0 or the server's error code; always rolled back."""
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute(sql, parameters)
            cursor.fetchall()
        return 0
    except DatabaseError as error:
        return code_of(error) or -1
    finally:
        other.rollback()
        other.set_autocommit(True)


def attempts(name: str, row: Table, role: str) -> Iterator[tuple[str, str, list[Any] | None, set[int]]]:
    """(what, statement, parameters, expected outcomes)"""
    for column in row:
        right = {0} if may(role, "SELECT", name, column) else DENIED
        yield f"SELECT {column}", f"SELECT {column} FROM {name}", None, right
        if may(role, "UPDATE", name, column):
            yield f"UPDATE {column}", f"UPDATE {name} SET {column} = {column}", None, {0}
        else:
            # Reads no column, so only the update can be denied.
            yield f"UPDATE {column}", f"UPDATE {name} SET {column} = NULL", None, DENIED
    allowed = {column: value for column, value in row.items() if may(role, "INSERT", name, column)}
    if allowed:
        columns, places = ", ".join(allowed), ", ".join(["%s"] * len(allowed))
        # The same row again: with the privilege it fails at a unique key, or at a trigger of the state machine.
        insert = f"INSERT INTO {name} ({columns}) VALUES ({places})"
        yield "INSERT", insert, list(allowed.values()), {DUPLICATE, REFUSED}
    for column in row.keys() - allowed.keys():
        yield f"INSERT {column}", f"INSERT INTO {name} ({column}) VALUES (%s)", [row[column]], DENIED
    yield "DELETE", f"DELETE FROM {name}", None, {0, REFERENCED} if may(role, "DELETE", name) else DENIED


@pytest.mark.requirement("R1-1b", "R1-4.2b", "R1-4.2c", "R1-9a", "R1-9b", "R1-9c", "R1-9d")
@pytest.mark.requirement("R2-2.3f", "R2-2.3g", "R2-2.3h", "R2-4.1a", "R2-4.1b", "R2-4.1c", "R2-4.1d", "R2-4.1e")
@pytest.mark.requirement("R2-4.2f", "R2-4.3a", "R2-4.3c", "R2-4.3d", "R2-4.3e")
@pytest.mark.requirement("R3-3.4a", "R3-3.4b", "R3-4.1b", "R3-4.1c", "R3-4.1d", "R3-4.2a", "R3-4.2c", "R3-4.2d")
@pytest.mark.requirement("R4-8.1a", "R4-8.1c")
@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_a_role_can_do_exactly_what_is_declared(tables: dict[str, Table], role: str):
    wrong, tried = {}, 0
    with connected_as(role) as other:
        for name, row in tables.items():
            for what, sql, parameters, right in attempts(name, row, role):
                found = outcome(other, sql, parameters)
                tried += 1
                if found not in right:
                    wrong[name, what] = (found, right)

    assert wrong == {}
    assert tried > 200


@pytest.mark.requirement("R4-1.2c")
@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_no_role_can_change_the_tables_the_triggers_or_the_grants(tables: dict[str, Table], role: str):
    schema = [
        "TRUNCATE TABLE events",
        "DROP TABLE events",
        "ALTER TABLE events COMMENT = 'x'",
        "CREATE TABLE roles_probe (id INT)",
        "CREATE INDEX roles_probe ON events (source)",
        "DROP TRIGGER trg_event_no_update",
        "CREATE TRIGGER roles_probe BEFORE INSERT ON events FOR EACH ROW SET NEW.source = ''",
        "LOCK TABLES events WRITE",
        "CREATE VIEW roles_probe AS SELECT 1",
        "CREATE USER hub_roles_probe",
        "GRANT SELECT ON events TO CURRENT_USER",
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "SELECT * FROM mysql.user",
    ]

    with connected_as(role) as other:
        found = {sql: outcome(other, sql) for sql in schema}

    assert {sql: code for sql, code in found.items() if code not in {1044, 1142, 1143, 1227, 1370}} == {}
