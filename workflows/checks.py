"""Django system checks of the workflow definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from webhookhub.checks import HUB
from webhookhub.conf import hub, variable

from . import versions
from .definition import Definition
from .parsing import InvalidDefinition
from .registry import Registry, registry
from .state import DONE, STARTED, UNDO_FAILED, UNDONE


@register(HUB)
def definitions_are_valid(**kwargs: Any) -> list[CheckMessage]:
    try:
        loaded = registry()
    except InvalidDefinition as error:
        return [Error(f"{error}.", hint="docs/workflows.md describes the format.", id="workflows.E001")]
    return [*_empty_folders(), *_ambiguous_types(loaded)]


@register(Tags.database)
def used_definitions_are_unchanged(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Compares the files with the versions stored in the database: content, and correlation."""
    if not databases or "default" not in databases:
        return []
    try:
        loaded = registry()
    except InvalidDefinition:
        return []  # reported by the other check
    try:
        changed: list[CheckMessage] = [Error(f"{error}.", id="workflows.E002") for error in versions.changed(loaded)]
        overtaken = loaded.with_stored(versions.stored()).overtaken
    except DatabaseError:
        return []  # not migrated yet
    except InvalidDefinition as error:
        return [Error(f"{error}.", id="workflows.E003")]
    return [*changed, *(_overtaken(newest, current) for newest, current in overtaken)]


def _overtaken(newest: Definition, current: Definition) -> CheckMessage:
    return Warning(
        f"{current.label} is in force, but the newest file is {newest.label_with_file}.",
        hint="A version that was used stays in force until there is a newer one. This is normal while processes with "
        f"newer files are being deployed. To return to the older rules, put them into a file with version = "
        f"{current.version + 1}.",
        id="workflows.W003",
    )


def _empty_folders() -> Iterator[CheckMessage]:
    for folder in hub().workflow_definitions:
        if not any(folder.glob("*.toml")):
            yield Warning(
                f"{variable('workflow_definitions')}: there is no definition (*.toml) in {folder}.",
                hint="Add a definition, or remove the folder from the setting. Without a definition no run starts.",
                id="workflows.W002",
            )


def _ambiguous_types(loaded: Registry) -> Iterator[CheckMessage]:
    """Any event of a run may arrive first: the compensation of one workflow must not look like a step of another."""
    for one, other in permutations(loaded.latest.values(), 2):
        for event_type in sorted(_types(one, UNDONE, UNDO_FAILED) & _types(other, DONE, STARTED)):
            yield Warning(
                f"{event_type!r} reports a compensation in {one.label} and progress in {other.label}: "
                f"each compensation of {one.name} would start a run of {other.name}.",
                hint="Use different event types.",
                id="workflows.W001",
            )


def _types(definition: Definition, *roles: str) -> set[str]:
    """The event types that report one of these roles."""
    return {event_type for event_type, pairs in definition.roles.items() if any(role in roles for _, role in pairs)}
