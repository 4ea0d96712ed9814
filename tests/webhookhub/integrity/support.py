"""An audit within the test's own process, and what keeps the data sound, taken away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.db import connection, models

from deadletters.models import DeadLetter
from jobs.models import Job
from sagas.models import Saga
from tests.conftest import empty_tables
from webhookhub.db import vendors
from webhookhub.db.server import schema
from webhookhub.db.triggers import declared
from webhookhub.integrity.checks import ALL
from webhookhub.integrity.run import Result, run

GUARDED: tuple[type[models.Model], ...] = (Saga, Job, DeadLetter)


def audit(*names: str, batch_size: int = 7, grace: int = 300, limit: int = 100) -> dict[str, Result]:
    """The results of those checks that found something. The batches are small, so that there is more than one."""
    checks = [check for check in ALL if not names or check.name in names]
    results = run(
        checks,
        batch_size=batch_size,
        grace=timedelta(seconds=grace),
        limit=limit,
        progress=lambda total: lambda done, name: None,
    )
    return {result.check.name: result for result in results if result.found}


def keys(result: Result) -> list[Any]:
    return sorted(violation.key for violation in result.first)


def execute(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)


def value(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        [row] = cursor.fetchall()
        return row[0]


@contextmanager
def without_protection() -> Iterator[None]:
    """No trigger, and neither unique keys nor checks on sagas, jobs and dead letters. The tables are empty after it."""
    for trigger in declared():
        execute(f"DROP TRIGGER {trigger.name}")
    for model in GUARDED:
        for constraint in model._meta.constraints:
            remove_constraint(model, constraint)
    try:
        yield
    finally:
        empty_tables()
        for model in GUARDED:
            for constraint in model._meta.constraints:
                add_constraint(model, constraint)
        restore_triggers()


def remove_constraint(model: type[models.Model], constraint: models.BaseConstraint) -> None:
    declared = model._meta.constraints
    # SQLite creates the table again, as the model declares it.
    model._meta.constraints = [] if model in GUARDED else [each for each in declared if each is not constraint]
    try:
        with schema_editor() as editor:
            editor.remove_constraint(model, constraint)
    finally:
        model._meta.constraints = declared


@contextmanager
def schema_editor() -> Iterator[Any]:
    """For tables whose schema a test breaks. The server may copy them: they are small."""
    with patch.object(schema, "GROWING", frozenset()), connection.schema_editor() as editor:
        yield editor


def add_constraint(model: type[models.Model], constraint: models.BaseConstraint) -> None:
    with schema_editor() as editor:
        editor.add_constraint(model, constraint)


def drop_triggers() -> None:
    for trigger in declared():
        execute(f"DROP TRIGGER {trigger.name}")


def restore_triggers() -> None:
    there = vendors.triggers(connection)
    for trigger in declared():
        if trigger.name not in there:
            execute(trigger.create_sql(connection))


def assert_clean() -> None:
    """At the end of a scenario: whatever happened, no rule of the stored data is broken."""
    broken = {name: keys(result) for name, result in audit(batch_size=1000).items() if result.is_violation}
    assert broken == {}
