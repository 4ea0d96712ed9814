"""The definitions there are: read from their files once, and again when the setting names other folders."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path

from webhookhub.conf import hub

from .definition import Definition
from .parsing import InvalidDefinition, parse

SHIPPED = Path(__file__).parent / "shipped"


class Registry:
    """All versions of all definitions."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._all: dict[tuple[str, int], Definition] = {}
        for definition in definitions:
            if (definition.name, definition.version) in self._all:
                raise InvalidDefinition(definition.label, "version", "is there twice; two files have it")
            self._all[definition.name, definition.version] = definition

    def get(self, name: str, version: int) -> Definition | None:
        return self._all.get((name, version))

    def all(self) -> list[Definition]:
        """By name, the newest version first."""
        return sorted(self._all.values(), key=lambda each: (each.name, -each.version))

    @cached_property
    def latest(self) -> dict[str, Definition]:
        """Name → the version that new sagas are born with."""
        return {each.name: each for each in reversed(self.all())}

    @cached_property
    def names_by_type(self) -> dict[str, list[str]]:
        """Event type → the definitions of which some version listens to it."""
        found: dict[str, set[str]] = {}
        for each in self.all():
            for event_type in each.roles:
                found.setdefault(event_type, set()).add(each.name)
        return {event_type: sorted(names) for event_type, names in found.items()}

    def with_stored(self, stored: Iterable[Definition]) -> Registry:
        """These and the stored ones whose files are gone, which their sagas still need."""
        return Registry([*self.all(), *(each for each in stored if not self.get(each.name, each.version))])


def registry() -> Registry:
    """The definitions in force: those of the folders of the setting, or the shipped ones."""
    return load(hub().workflow_definitions or (SHIPPED,))


@lru_cache(maxsize=8)
def load(folders: tuple[Path, ...]) -> Registry:
    return Registry(read(file) for folder in folders for file in sorted(folder.glob("*.toml")))


def read(file: Path) -> Definition:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDefinition(file.name, "file", f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidDefinition(file.name, "file", f"is not TOML: {error}") from None
    return parse(document, file.name)
