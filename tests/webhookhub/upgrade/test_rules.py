"""Migrations that would lock a large table, or break a process of the version before, are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation

from tests.support.previous_release import ROOT as CHECKOUT
from tests.support.previous_release import VERSION, require_history, stored_file, stored_paths
from webhookhub.db.batches import InBatches
from webhookhub.db.clock import UtcNow
from webhookhub.db.growing import GROWING
from webhookhub.upgrade import rules

SMALL = "subscription"


def name(value: Any) -> str | None:
    return value.describe() if isinstance(value, Operation) else None


def refused(app: str, *operations: Any, contract: bool = False) -> list[str]:
    """The problems of a migration that follows all others."""
    loader = MigrationLoader(None)
    migration = type("Migration", (Migration,), {"operations": operations, "contract": contract})("9999_next", app)
    return list(rules.problems_of(migration, loader.project_state()))


def test_all_migrations_follow_the_rules():
    assert rules.problems(MigrationLoader(None)) == []


def test_growing_tables_exist():
    tables = {str(model.options.get("db_table")) for model in MigrationLoader(None).project_state().models.values()}
    assert tables >= GROWING


def test_migrations_of_the_previous_release_are_not_edited():
    require_history()
    released = [path for path in stored_paths() if re.search(r"/migrations/\d\w+\.py$", path)]
    assert len(released) > 20
    for path in released:
        assert (CHECKOUT / path).read_bytes() == stored_file(path), f"{path} is part of {VERSION}: add a migration"


@pytest.mark.parametrize(
    ("app", "operation"),
    [
        ("events", migrations.AddField("event", "region", models.CharField(max_length=9, null=True))),
        ("sagas", migrations.AddField("saga", "region", models.CharField(max_length=9, db_default="x"))),
        ("jobs", migrations.AddIndex("job", models.Index(fields=["worker_id"], name="idx_job_worker"))),
        ("jobs", InBatches("webhook_delivery_jobs", "UPDATE x SET y = 1 WHERE id BETWEEN %(first)s AND %(last)s")),
        ("events", migrations.AlterModelOptions("event", {"verbose_name": "happening"})),
        ("events", migrations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))])),
        ("subscriptions", migrations.AddField(SMALL, "region", models.CharField(db_default=UtcNow(), max_length=9))),
        ("subscriptions", migrations.RunPython(migrations.RunPython.noop)),
        ("subscriptions", migrations.RunSQL("UPDATE subscriptions SET active = 1 WHERE active = 1")),
        ("subscriptions", migrations.AlterField("endpointhealth", "callback_url", models.CharField(max_length=900))),
    ],
    ids=name,
)
def test_changes_that_need_no_pause_are_accepted(app: str, operation: Any):
    if isinstance(operation, migrations.AlterField):  # the same column, longer and not unique
        model = MigrationLoader(None).project_state().models[app, "endpointhealth"]
        operation.field = model.get_field("callback_url").clone()
        operation.field.max_length, operation.field._unique = 900, False
    assert refused(app, operation) == []


@pytest.mark.parametrize(
    ("app", "operation", "reason"),
    [
        ("events", migrations.AddField("event", "a", models.IntegerField(default=1)), "db_default"),
        ("subscriptions", migrations.AddField(SMALL, "a", models.IntegerField(default=1)), "db_default"),
        (
            "events",
            migrations.AddField("event", "a", models.DateTimeField(db_default=UtcNow())),
            "computed copies events",
        ),
        ("jobs", migrations.AddField("job", "a", models.IntegerField(null=True, unique=True)), "unique column locks"),
        (
            "sagas",
            migrations.AddField(
                "saga",
                "a",
                models.GeneratedField(
                    expression=models.F("attempt_count") + 1, output_field=models.IntegerField(), db_persist=True
                ),
            ),
            "stored generated column copies webhook_delivery_sagas",
        ),
        (
            "sagas",
            migrations.AddField("saga", "a", models.ForeignKey("self", models.CASCADE, null=True)),
            "foreign key",
        ),
        ("events", migrations.AlterField("event", "event_type", models.CharField(max_length=500)), "copies events"),
        (
            "sagas",
            migrations.AddConstraint("saga", models.CheckConstraint(condition=models.Q(id__gt=0), name="c")),
            "checks all rows of webhook_delivery_sagas",
        ),
        (
            "subscriptions",
            migrations.AddConstraint(SMALL, models.UniqueConstraint(fields=["callback_url"], name="c")),
            "the version before may write rows that violate it",
        ),
        (
            "sagas",
            migrations.AddConstraint("saga", models.UniqueConstraint(fields=["event"], name="c")),
            "the version before may write rows that violate it",
        ),
        ("subscriptions", migrations.RemoveField(SMALL, "description"), "the version before may use it"),
        ("subscriptions", migrations.RenameField(SMALL, "description", "title"), "the version before may use it"),
        ("events", migrations.RemoveIndex("event", "idx_event_customer"), "the version before may use it"),
        ("events", migrations.DeleteModel("EventType"), "the version before may use it"),
        ("events", migrations.RunSQL("UPDATE `events` SET labels = NULL"), "may lock many rows of events"),
        ("sagas", migrations.RunPython(migrations.RunPython.noop), "may lock many rows"),
        ("events", migrations.AlterUniqueTogether("event", {("uid", "source")}), "not known to be safe"),
    ],
    ids=name,
)
def test_changes_that_lock_or_break_the_version_before_are_refused(app: str, operation: Any, reason: str):
    [problem] = refused(app, operation)
    assert reason in problem


def test_what_the_version_before_needs_may_go_in_a_migration_to_contract():
    gone = migrations.RemoveField(SMALL, "description")

    assert refused("subscriptions", gone)
    assert refused("subscriptions", gone, contract=True) == []


def test_tables_and_columns_that_are_new_have_no_old_writers():
    table = migrations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))])
    field = migrations.AddField("other", "a", models.IntegerField(default=1))
    column = migrations.AddField(SMALL, "number", models.IntegerField(null=True))
    key = migrations.AddConstraint(SMALL, models.UniqueConstraint(fields=["event_type", "number"], name="c"))

    assert refused("subscriptions", table, field, column, key) == []


def test_a_growing_table_may_have_a_new_key_with_a_new_column():
    """Servers create it in place, as they create an index."""
    column = migrations.AddField("saga", "number", models.IntegerField(null=True))
    key = migrations.AddConstraint("saga", models.UniqueConstraint(fields=["event", "number"], name="c"))

    assert refused("sagas", column, key) == []


def test_operations_on_the_database_alone_are_checked():
    field = migrations.AddField("event", "a", models.IntegerField(default=1))

    assert refused("events", migrations.SeparateDatabaseAndState([field], []))
