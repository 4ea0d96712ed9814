"""The definitions there are: read from their files once, and again when the setting names other folders."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path

from webhookhub.conf import hub

from .definition import Definition, Reading
from .parsing import InvalidDefinition, parse

SHIPPED = Path(__file__).parent / "shipped"


class Registry:
    """The definitions that are offered, and those that were: sagas still need the version they were born with."""

    def __init__(self, offered: Iterable[Definition], retired: Iterable[Definition] = ()) -> None:
        self._offered: dict[tuple[str, int], Definition] = {}
        for definition in offered:
            if (definition.name, definition.version) in self._offered:
                raise InvalidDefinition(definition.label, "version", "is there twice; two files have it")
            self._offered[definition.name, definition.version] = definition
        self._all = {(each.name, each.version): each for each in retired} | self._offered

    def get(self, name: str, version: int) -> Definition | None:
        return self._all.get((name, version))

    def all(self) -> list[Definition]:
        """By name, the newest version first."""
        return sorted(self._all.values(), key=lambda each: (each.name, -each.version))

    def offers(self, definition: Definition) -> bool:
        return (definition.name, definition.version) in self._offered

    @cached_property
    def latest(self) -> dict[str, Definition]:
        """Name → the version that new sagas are born with: the newest of those that are offered."""
        return {each.name: each for each in reversed(self.all()) if self.offers(each)}

    @cached_property
    def shown(self) -> dict[str, Definition]:
        """Name → the version to be shown of it: of what is no longer offered, the newest there was."""
        return {each.name: each for each in reversed(self.all())} | self.latest

    @cached_property
    def readings(self) -> dict[str, list[tuple[str, Reading]]]:
        """Event type → the definitions of which some version listens to it, and the ways in which these read it."""
        found: dict[str, dict[tuple[str, Reading], None]] = {}
        for each in self.all():
            for event_type in each.roles:
                found.setdefault(event_type, {})[each.name, each.reading] = None
        return {event_type: list(ways) for event_type, ways in found.items()}

    def with_stored(self, stored: Iterable[Definition]) -> Registry:
        """These and the stored ones whose files are gone, which their sagas still need."""
        return Registry(self._offered.values(), [*self._all.values(), *stored])


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
