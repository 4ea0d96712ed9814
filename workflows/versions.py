"""Versions that runs were created with. They are stored: a version that was used can no longer change."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from functools import lru_cache

from webhookhub.db.bulk import insert_new
from webhookhub.logs import Log, log

from .definition import Definition, label
from .models import Instance, UsedDefinition
from .parsing import InvalidDefinition, parse
from .registry import Registry, registry


def in_force() -> Registry:
    """The definitions of the files and of the database.

    Raises InvalidDefinition if a file changed after it was used, or conflicts with a stored version.
    """
    return up_to_date(registry())


def up_to_date(registry: Registry) -> Registry:
    """`registry` with the versions that other processes have started to use. Costs one query on a small table."""
    used = _used()
    for error in _changed(registry, used):
        raise error
    return registry if all(registry.get(*version) for version in used) else registry.with_stored(stored())


def definition_of(instance: Instance) -> Definition:
    """The version that the run was created with."""
    definition = in_force().get(instance.saga_type, instance.definition_version)
    assert definition is not None, f"the definition of {instance} was never stored"
    return definition


def stored() -> list[Definition]:
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "document")
    return [definition for row in rows if (definition := _read(*row)) is not None]


@lru_cache(maxsize=256)
def _read(name: str, version: int, document: str) -> Definition | None:
    """None for a row that another program has written by SQL and that nothing can read: logged once per process."""
    try:
        definition = parse(json.loads(document), label(name, version), stored=True)
        if definition.key != (name, version):
            raise ValueError(f"it defines {definition.label}")
    except (InvalidDefinition, ValueError, TypeError, AttributeError, RecursionError) as error:
        log(Log.WORKFLOW_DEFINITION_INVALID, saga_type=name, version=version, error=f"{type(error).__name__}: {error}")
        return None
    return definition


def every_version() -> Iterator[Definition]:
    """Stored versions first. Files are read last, so that an invalid file does not hide existing runs."""
    yield from stored()
    yield from registry().all()


def first_used() -> dict[tuple[str, int], datetime]:
    """(name, version) → when it was first used."""
    rows = UsedDefinition.objects.values_list("name", "version", "first_used_at")
    return {(name, version): at for name, version, at in rows}


def changed(registry: Registry) -> Iterator[InvalidDefinition]:
    """An error for each file that changed after it was used."""
    return _changed(registry, _used())


def _used() -> dict[tuple[str, int], str]:
    """(name, version) → fingerprint."""
    rows = UsedDefinition.objects.order_by("name", "version").values_list("name", "version", "fingerprint")
    return {(name, version): fingerprint for name, version, fingerprint in rows}


def _changed(registry: Registry, used: Mapping[tuple[str, int], str]) -> Iterator[InvalidDefinition]:
    for (name, version), fingerprint in used.items():
        definition = registry.of_file(name, version)
        if definition is not None and definition.fingerprint != fingerprint and _is_readable(name, version):
            versions = [*used, *(other.key for other in registry.all())]
            newest = max(number for other, number in versions if other == name)
            yield InvalidDefinition(
                definition.label_with_file,
                "version",
                "has runs and was changed since, or another process has used this number with different content; "
                f"restore the file and put the change into a new version, {newest + 1}, in a file of its own",
            )


def _is_readable(name: str, version: int) -> bool:
    rows = UsedDefinition.objects.filter(name=name, version=version).values_list("document", flat=True)
    return any(_read(name, version, document) for document in rows)


def remember(definitions: Collection[Definition]) -> None:
    """Store versions before their first run is created. Raises InvalidDefinition if one is stored differently."""
    rows = [
        {
            "name": definition.name,
            "version": definition.version,
            "fingerprint": definition.fingerprint,
            "document": json.dumps(definition.document, sort_keys=True),
        }
        for definition in definitions
    ]
    insert_new(UsedDefinition, rows, key=("name", "version"), look_first=True)
    for error in changed(Registry(definitions)):
        raise error
