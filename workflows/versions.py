"""Versions that runs were created with. They are stored: a version that was used can no longer change."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from webhookhub.db.bulk import insert_new

from .definition import Definition
from .models import UsedDefinition
from .parsing import InvalidDefinition, parse
from .registry import Registry, registry


def in_force() -> Registry:
    """The definitions of the files and of the database.

    Raises InvalidDefinition if a file changed after it was used, or conflicts with a stored version.
    """
    loaded = registry()
    for error in changed(loaded):
        raise error
    return loaded.with_stored(stored())


def up_to_date(known: Registry) -> Registry:
    """`known` with the versions that other processes have started to use. Costs one query on a small table.

    Raises InvalidDefinition if another process has used different content under the version of a file here.
    """
    used = list(UsedDefinition.objects.values_list("name", "version", "fingerprint"))
    for error in _changed(known, used):
        raise error
    return known if all(known.get(name, version) for name, version, _ in used) else known.with_stored(stored())


def stored() -> list[Definition]:
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "document")
    return [parse(json.loads(document), f"{name} version {version}", stored=True) for name, version, document in rows]


def every_version() -> Iterator[Definition]:
    """Stored versions first. Files are read last, so that an invalid file does not hide existing runs."""
    yield from stored()
    yield from registry().all()


def first_used() -> dict[tuple[str, int], datetime]:
    """(name, version) → when it was first used."""
    rows = UsedDefinition.objects.values_list("name", "version", "first_used_at")
    return {(name, version): at for name, version, at in rows}


def changed(loaded: Registry) -> Iterator[InvalidDefinition]:
    """An error for each file that changed after it was used."""
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "fingerprint")
    yield from _changed(loaded, list(rows))


def _changed(loaded: Registry, used: Sequence[tuple[str, int, str]]) -> Iterator[InvalidDefinition]:
    for name, version, fingerprint in used:
        definition = loaded.of_file(name, version)
        if definition is not None and definition.fingerprint != fingerprint:
            numbers = [number for other, number, _ in used if other == name]
            numbers += [each.version for each in loaded.all() if each.name == name]
            yield InvalidDefinition(
                definition.label_with_file,
                "version",
                "has runs and was changed since, or another process has used this number with different content; "
                f"restore the file and put the change into a new version, {max(numbers) + 1}, in a file of its own",
            )


def remember(definitions: Collection[Definition]) -> None:
    """Store versions before their first run is created. Raises InvalidDefinition if one is stored differently."""
    rows: Iterable[dict[str, object]] = (
        {
            "name": each.name,
            "version": each.version,
            "fingerprint": each.fingerprint,
            "document": json.dumps(each.document, sort_keys=True),
        }
        for each in definitions
    )
    insert_new(UsedDefinition, list(rows), key=("name", "version"), look_first=True)
    for error in changed(Registry(definitions)):
        raise error
