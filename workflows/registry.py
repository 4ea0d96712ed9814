"""The definitions there are: read from their files once, and again when the setting names other folders."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cached_property, lru_cache
from os.path import commonpath
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
            same = self._offered.setdefault((definition.name, definition.version), definition)
            if same is not definition:
                raise InvalidDefinition(
                    definition.label,
                    "version",
                    f"is there twice, in {same.file} and in {definition.file}; give one of them another number",
                )
        self._all = {(each.name, each.version): each for each in retired} | self._offered

    def get(self, name: str, version: int) -> Definition | None:
        return self._all.get((name, version))

    def of_file(self, name: str, version: int) -> Definition | None:
        """As it stands in a file here, whatever is stored."""
        return self._offered.get((name, version))

    def all(self) -> list[Definition]:
        """By name, the newest version first."""
        return sorted(self._all.values(), key=lambda each: (each.name, -each.version))

    def offers(self, definition: Definition) -> bool:
        """Whether its file is here, or it is in force whether its file is here or not."""
        current = self.latest.get(definition.name)
        has_file = (definition.name, definition.version) in self._offered
        return has_file or (current is not None and current.version == definition.version)

    @cached_property
    def latest(self) -> dict[str, Definition]:
        """Name → the version in force, with which new sagas are born: the newest that is here or was ever used.

        That it was used the database tells everybody: processes with other files begin with the same version.
        """
        offered = {name for name, _ in self._offered}
        return {each.name: each for each in reversed(self.all()) if each.name in offered}

    @cached_property
    def overtaken(self) -> list[tuple[Definition, Definition]]:
        """(newest file, version in force) of what a newer version is in force of than there is a file of."""
        newest = {each.name: each for each in sorted(self._offered.values(), key=lambda each: each.version)}
        return [(each, self.latest[name]) for name, each in sorted(newest.items()) if self.latest[name] is not each]

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
    # As short as it can be and still say which of the folders: two may have a file of the same name.
    top = Path(commonpath(folders))
    files = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
    return Registry(read(file, str(file.relative_to(top))) for file in files)


def read(file: Path, called: str = "") -> Definition:
    """`called` is how errors name the file, if not by its name alone."""
    called = called or file.name
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDefinition(called, "file", f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidDefinition(called, "file", f"is not TOML: {error}") from None
    except RecursionError:
        raise InvalidDefinition(called, "file", "is nested too deeply; a definition is a table with steps") from None
    return parse(document, called)
