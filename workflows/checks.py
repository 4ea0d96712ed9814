"""Django system checks of the definitions: what is wrong is said before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from webhookhub.checks import HUB
from webhookhub.conf import hub, variable

from . import versions
from .definition import Definition
from .parsing import InvalidDefinition
from .registry import Registry, registry
from .words import DONE, STARTED, UNDO_FAILED, UNDONE


@register(HUB)
def definitions_can_be_used(**kwargs: Any) -> list[CheckMessage]:
    try:
        loaded = registry()
    except InvalidDefinition as error:
        return [
            Error(
                f"{error}.",
                hint="Put the file right; the format is described in docs/workflows.md.",
                id="workflows.E001",
            )
        ]
    return [*_empty_folders(), *_mistaken_for_another(loaded)]


@register(Tags.database)
def used_definitions_are_as_they_were(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """A saga goes by the rules it was born with."""
    if not databases or "default" not in databases:
        return []
    try:
        loaded = registry()
        found = list(versions.changed(loaded))
        overtaken = loaded.with_stored(versions.stored()).overtaken
    except (InvalidDefinition, DatabaseError):
        return []  # said by the other check; or not migrated yet, and nothing was used
    return [
        *(Error(f"{error}.", id="workflows.E002") for error in found),
        *(_overtaken(newest, current) for newest, current in overtaken),
    ]


def _overtaken(newest: Definition, current: Definition) -> CheckMessage:
    return Warning(
        f"{current.label} is in force, and the newest file is of {newest.label_with_file}.",
        hint="A version that was used stays in force until there is a newer one. If this process is to be replaced by "
        f"one that has the file, all is well. To go back to the older rules, put them into a file with version = "
        f"{current.version + 1}.",
        id="workflows.W003",
    )


def _empty_folders() -> Iterator[CheckMessage]:
    for folder in hub().workflow_definitions:
        if not any(folder.glob("*.toml")):
            yield Warning(
                f"{variable('workflow_definitions')}: there is no definition (*.toml) in {folder}.",
                hint="Put one there, or take the folder out of the setting; without the setting the shipped ones hold. "
                "No workflow begins with a folder that is empty.",
                id="workflows.W002",
            )


def _mistaken_for_another(loaded: Registry) -> Iterator[CheckMessage]:
    """Any event of a saga may be the first that is seen of it: one saga's undoing must not look like another's step."""
    for one in loaded.latest.values():
        undoing = {event_type for event_type in one.roles if _says(one, event_type, (UNDONE, UNDO_FAILED))}
        for other in loaded.latest.values():
            if other is one:
                continue
            for event_type in sorted(undoing & set(other.roles)):
                if _says(other, event_type, (DONE, STARTED)):
                    yield Warning(
                        f"{event_type!r} tells that {one.label} undoes a step and that {other.label} does one: "
                        f"whenever a {one.name} is compensated, a {other.name} would begin.",
                        hint="Give the two happenings event types of their own.",
                        id="workflows.W001",
                    )


def _says(definition: Any, event_type: str, roles: tuple[str, ...]) -> bool:
    return any(role in roles for _, role in definition.roles.get(event_type, []))
