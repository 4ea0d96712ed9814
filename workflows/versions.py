"""The versions that sagas were born with, kept in the database: what was used once can no longer change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from webhookhub.db.bulk import insert_new

from .definition import Definition
from .models import UsedDefinition
from .parsing import InvalidDefinition, parse
from .registry import Registry, registry


def in_force() -> Registry:
    """The definitions of the files, and of the database those that have no file here: of each name that has one, the
    newest is in force.

    Raises InvalidDefinition if a file has been changed since sagas were born with it.
    """
    loaded = registry()
    for error in changed(loaded):
        raise error
    return loaded.with_stored(stored())


def first_used() -> dict[tuple[str, int], datetime]:
    """Name and version → when its first saga was about to be born."""
    rows = UsedDefinition.objects.values_list("name", "version", "first_used_at")
    return {(name, version): moment for name, version, moment in rows}


def took_over_at(definition: Definition) -> datetime | None:
    """When a version that is stored took over from others that go by another key; None if there are none."""
    if all(each.correlation == definition.correlation for each in stored() if each.name == definition.name):
        return None
    return UsedDefinition.objects.get(name=definition.name, version=definition.version).first_used_at


def up_to_date(known: Registry) -> Registry:
    """With the versions that other processes have begun to use since: one look at a table of a few rows.

    Raises InvalidDefinition if they have used another content under the number of a file that is here.
    """
    there = list(UsedDefinition.objects.values_list("name", "version", "fingerprint"))
    for error in _changed(known, there):
        raise error
    return known if all(known.get(name, version) for name, version, _ in there) else known.with_stored(stored())


def stored() -> list[Definition]:
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "document")
    return [parse(json.loads(document), f"{name} version {version}", stored=True) for name, version, document in rows]


def every_version() -> Iterator[Definition]:
    """Those that were ever used, then those of the files, which are read only if somebody asks that far: a file that is
    at fault keeps nobody from looking at the sagas there are."""
    yield from stored()
    yield from registry().all()


def changed(loaded: Registry) -> Iterator[InvalidDefinition]:
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "fingerprint")
    yield from _changed(loaded, list(rows))


def _changed(loaded: Registry, there: Sequence[tuple[str, int, str]]) -> Iterator[InvalidDefinition]:
    for name, version, fingerprint in there:
        definition = loaded.of_file(name, version)
        if definition is not None and definition.fingerprint != fingerprint:
            numbers = [number for other, number, _ in there if other == name]
            numbers += [each.version for each in loaded.all() if each.name == name]
            yield InvalidDefinition(
                definition.label_with_file,
                "version",
                "has sagas and was changed since, or another process has begun them with another content under this "
                f"number; put it back as it was and make a new version, {max(numbers) + 1}, in a file of its own",
            )


def remember(definitions: Iterable[Definition]) -> None:
    """To be called before the first saga of a version is born. Raises InvalidDefinition if it was born differently."""
    given = list(definitions)
    insert_new(
        UsedDefinition,
        [
            {
                "name": each.name,
                "version": each.version,
                "fingerprint": each.fingerprint,
                "document": json.dumps(each.document, sort_keys=True),
            }
            for each in given
        ],
        key=("name", "version"),
        look_first=True,
    )
    for error in changed(Registry(given)):
        raise error
