"""Migrations change tables while other sessions use them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import (
    AddConstraint,
    AddField,
    AddIndex,
    AlterField,
    RemoveConstraint,
    RemoveField,
    RemoveIndex,
)
from django.db.migrations.state import ProjectState
from django.db.models.functions import Now
from django.db.utils import OperationalError

from events.intake import NewEvent, publish_many
from events.models import Event, RoutingInbox
from webhookhub.db import trigger_check
from webhookhub.db.batches import InBatches
from webhookhub.db.server import schema
from webhookhub.db.triggers import ReplaceTriggers, declared

pytestmark = [pytest.mark.mysql_family]

SECONDS = 60
# A change waits in front of others for a second at most; and a busy machine.
SHORT_SECONDS = 2.5
COLUMN = AddField("event", "extra", models.CharField(max_length=9, db_default=""))
NO_COLUMN = RemoveField("event", "extra")


def change(app: str, *operations: Any) -> None:
    """As one migration."""
    before = MigrationLoader(None).project_state()
    with connection.schema_editor(atomic=False) as editor:
        for operation in operations:
            after = before.clone()
            operation.state_forwards(app, after)
            operation.database_forwards(app, editor, before, after)
            before = after


@pytest.fixture
def other() -> Iterator[BaseDatabaseWrapper]:
    session = connection.copy()
    yield session
    session.close()


@pytest.fixture
def column(committed: None) -> Iterator[None]:
    """Is removed, if the test has created it."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SHOW COLUMNS FROM events LIKE 'extra'")
        if cursor.fetchone():
            cursor.execute("ALTER TABLE events DROP COLUMN extra")


def test_no_event_misses_a_trigger_that_is_replaced(committed: None):
    """Events that are stored meanwhile are all routed."""
    triggers = [trigger for trigger in declared() if trigger.table == "events"]
    assert "trg_event_inbox" in {trigger.name for trigger in triggers}
    stopping = threading.Event()

    def publish() -> None:
        while not stopping.is_set():
            publish_many([NewEvent("order.created", {}) for _ in range(3)])

    def publishing() -> None:
        try:
            publish()
        finally:
            connection.close()

    threads = [threading.Thread(target=publishing) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            change("events", ReplaceTriggers(triggers, triggers))
    finally:
        stopping.set()
        for thread in threads:
            thread.join(SECONDS)

    assert Event.objects.count() > 20
    assert set(RoutingInbox.objects.values_list("event_id", flat=True)) == set(
        Event.objects.values_list("id", flat=True)
    )
    assert list(trigger_check.wrong_triggers(connection)) == []


def test_a_change_that_has_to_wait_lets_others_pass(column: None, other: BaseDatabaseWrapper):
    """While it waits for a long transaction, events are stored: all sessions behind it would wait, too."""
    other.set_autocommit(False)
    with other.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM events")
    changed = threading.Event()

    def add_column() -> None:
        try:
            change("events", COLUMN)
            changed.set()
        finally:
            connection.close()

    thread = threading.Thread(target=add_column)
    thread.start()
    slowest = 0.0
    until = time.monotonic() + 3 * SHORT_SECONDS
    while time.monotonic() < until:
        started_at = time.monotonic()
        publish_many([NewEvent("order.created", {})])
        slowest = max(slowest, time.monotonic() - started_at)
    assert not changed.is_set()
    other.rollback()
    other.set_autocommit(True)
    thread.join(SECONDS)

    assert changed.is_set()
    assert slowest < SHORT_SECONDS


def test_a_change_gives_up_in_the_end(column: None, other: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "GIVE_UP_SECONDS", 0.0)
    other.set_autocommit(False)
    with other.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM events")

    with pytest.raises(OperationalError, match="Lock wait timeout"):
        change("events", COLUMN)


def test_the_server_refuses_to_copy_a_growing_table(column: None):
    """Whatever the rules have overlooked."""
    wider = AlterField("event", "event_type", models.IntegerField())
    with pytest.raises(OperationalError, match="ALGORITHM"):
        change("events", wider)

    computed = AddField("event", "extra", models.UUIDField(db_default=Now()))
    with pytest.raises(OperationalError):
        change("events", computed)


def test_columns_and_indexes_of_growing_tables_name_their_algorithm(committed: None):
    key = models.UniqueConstraint(fields=["id", "extra"], name="uniq_extra")
    changes = (
        COLUMN,
        AddIndex("event", models.Index(fields=["source"], name="idx_extra")),
        AddConstraint("event", key),
        RemoveConstraint("event", "uniq_extra"),
        RemoveIndex("event", "idx_extra"),
        NO_COLUMN,
    )
    state: ProjectState = MigrationLoader(None).project_state()
    with connection.schema_editor(collect_sql=True, atomic=False) as editor:
        for operation in changes:
            after = state.clone()
            operation.state_forwards("events", after)
            operation.database_forwards("events", editor, state, after)
            state = after

    ends = [sql.partition(" ALGORITHM=")[2] for sql in editor.collected_sql]
    assert ends == ["INSTANT;", "INPLACE LOCK=NONE;", *["INPLACE, LOCK=NONE;"] * 4]
    # The server does it that way.
    change("events", *changes)


def test_rows_are_changed_in_batches(committed: None):
    """Each batch is committed by itself."""
    publish_many([NewEvent("order.created", {}) for _ in range(25)])
    first = Event.objects.order_by("id")[0].id
    statement = (
        "UPDATE routing_inbox SET labels = '{}' WHERE event_id BETWEEN %(first)s AND %(last)s "
        f"AND event_id < {first + 20}"
    )
    seen: list[int] = []
    with connection.execute_wrapper(_counting(seen)):
        change("events", InBatches("routing_inbox", statement, 10, key="event_id"))

    assert seen == [10, 10, 0]
    assert RoutingInbox.objects.exclude(labels=None).count() == 20


def _counting(seen: list[int]) -> Callable[..., Any]:
    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("UPDATE"):
            assert not connection.in_atomic_block
            seen.append(context["cursor"].rowcount)
        return result

    return wrapper
