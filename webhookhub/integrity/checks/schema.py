"""The schema and the server protect the data: keys, checks, generated columns, triggers, server settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection, models

from webhookhub.db import requirements, trigger_check, vendors
from webhookhub.db.triggers import declared
from webhookhub.integrity.check import Bounds, Found, FunctionCheck, Violation


def own_models() -> list[type[models.Model]]:
    packages = {name for name in settings.INSTALLED_APPS if "." not in name}
    return [model for model in apps.get_models() if model.__module__.partition(".")[0] in packages]


def keys(bounds: Bounds) -> Found:
    examined, violations = 0, []
    for model in own_models():
        table = model._meta.db_table
        with connection.cursor() as cursor:
            stored: dict[str, dict[str, Any]] = connection.introspection.get_constraints(cursor, table)
        for name, what, exists in [*_named(model, stored), *_unnamed(model, stored), *_generated(model)]:
            examined += 1
            if not exists:
                violations.append(Violation(table, name, f"the {what} is missing or different"))
    return examined, violations


Expectation = tuple[str, str, bool]


def _named(model: type[models.Model], stored: dict[str, dict[str, Any]]) -> Iterator[Expectation]:
    for index in model._meta.indexes:
        columns = stored.get(index.name, {}).get("columns")
        yield index.name, "index", columns == _columns(model, index.fields)
    for constraint in model._meta.constraints:
        existing = stored.get(constraint.name, {})
        if isinstance(constraint, models.UniqueConstraint):
            exists = bool(existing.get("unique")) and existing["columns"] == _columns(model, constraint.fields)
            yield constraint.name, "unique key", exists
        else:
            exists = bool(existing.get("check")) or vendors.has_check(connection, model._meta.db_table, constraint.name)
            yield constraint.name, "check", exists


def _unnamed(model: type[models.Model], stored: dict[str, dict[str, Any]]) -> Iterator[Expectation]:
    unique = [key["columns"] for key in stored.values() if key["unique"] or key["primary_key"]]
    for field in model._meta.concrete_fields:
        if field.unique:
            yield field.column, "unique key", [field.column] in unique


def _generated(model: type[models.Model]) -> Iterator[Expectation]:
    wanted = [field.column for field in model._meta.concrete_fields if field.generated]
    stored = vendors.generated_columns(connection, model._meta.db_table) if wanted else set()
    for column in wanted:
        yield column, "generated column", column in stored


def _columns(model: type[models.Model], names: Any) -> list[str]:
    return [str(model._meta.get_field(name).column) for name in names]  # type: ignore[union-attr]


def triggers(bounds: Bounds) -> Found:
    return len(declared()), [
        Violation(broken.trigger.table, broken.trigger.name, f"{broken.message} ({broken.remedy})")
        for broken in trigger_check.wrong_triggers(connection)
    ]


def unseen_triggers(bounds: Bounds) -> Found:
    if trigger_check.can_see_triggers(connection):
        return 0, []
    return 0, [Violation("information_schema", "triggers", "hidden: this user lacks the TRIGGER privilege")]


def server(bounds: Bounds) -> Found:
    return 1, [
        Violation("server", problem.id, f"{problem.message} ({problem.hint})")
        for problem in requirements.server_problems()
    ]


CHECKS = (
    FunctionCheck(
        name="server",
        invariant="The server and the connection's settings meet the hub's requirements.",
        find=server,
    ),
    FunctionCheck(
        name="keys",
        invariant="The keys, indexes, checks and generated columns that the models declare exist.",
        find=keys,
    ),
    FunctionCheck(
        name="triggers",
        invariant="The triggers exist with exactly the bodies that the migrations define.",
        find=triggers,
    ),
    FunctionCheck(
        name="triggers-seen",
        invariant="This database user may see the triggers; otherwise they cannot be checked.",
        is_warning=True,
        find=unseen_triggers,
    ),
)
