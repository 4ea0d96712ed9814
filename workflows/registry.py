"""The workflow definitions of this process: read from their files, and completed with those stored in the database."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from os.path import commonpath
from pathlib import Path

from webhookhub.conf import hub

from .definition import Definition
from .parsing import InvalidDefinition, parse

SHIPPED = Path(__file__).parent / "shipped"


class Registry:
    """`offered` have a file here. `stored` have runs; their files may be gone.

    Raises InvalidDefinition if a version has two files, or if versions of a workflow differ in their correlation.
    """

    def __init__(self, offered: Iterable[Definition], stored: Iterable[Definition] = ()) -> None:
        self._offered: dict[tuple[str, int], Definition] = {}
        for definition in offered:
            same = self._offered.setdefault((definition.name, definition.version), definition)
            if same is not definition:
                raise InvalidDefinition(
                    definition.label,
                    "version",
                    f"is there twice, in {same.file} and in {definition.file}; give one of them another number",
                )
        self._stored = {(each.name, each.version): each for each in stored}
        self._all = self._stored | self._offered
        self._require_same_correlation()

    def _require_same_correlation(self) -> None:
        """An event belongs to one run, found by its key. So the key must not depend on the run's version."""
        by_version = sorted(self._offered.values(), key=lambda each: -each.version)
        reference = {each.name: each for each in by_version}
        reference |= {name: self._stored[name, version] for name, version in sorted(self._stored)}
        for each in self._offered.values():
            other = reference[each.name]
            if each.correlation != other.correlation:
                raise InvalidDefinition(
                    each.label_with_file,
                    "correlation",
                    f"is {each.correlation!r}, and version {other.version} has {other.correlation!r}; all versions of "
                    "a workflow must have the same correlation, so give the new workflow a new name",
                )

    def get(self, name: str, version: int) -> Definition | None:
        return self._all.get((name, version))

    def of_file(self, name: str, version: int) -> Definition | None:
        return self._offered.get((name, version))

    def all(self) -> list[Definition]:
        """By name, the newest version first."""
        return sorted(self._all.values(), key=lambda each: (each.name, -each.version))

    def offers(self, definition: Definition) -> bool:
        """Whether it has a file here or is in force."""
        current = self.latest.get(definition.name)
        has_file = (definition.name, definition.version) in self._offered
        return has_file or (current is not None and current.version == definition.version)

    @cached_property
    def latest(self) -> dict[str, Definition]:
        """Name → the version in force: the newest that has a file here or was ever used. New runs get it.

        Used versions are stored, so processes with different files agree on it.
        """
        offered = {name for name, _ in self._offered}
        return {each.name: each for each in reversed(self.all()) if each.name in offered}

    @cached_property
    def overtaken(self) -> list[tuple[Definition, Definition]]:
        """(newest file, version in force) for each workflow whose version in force has no file here."""
        newest = {each.name: each for each in sorted(self._offered.values(), key=lambda each: each.version)}
        return [(each, self.latest[name]) for name, each in sorted(newest.items()) if self.latest[name] is not each]

    @cached_property
    def shown(self) -> dict[str, Definition]:
        """Name → the version in force, or the newest known version of a retired workflow."""
        return {each.name: each for each in reversed(self.all())} | self.latest

    @cached_property
    def listeners(self) -> dict[str, list[str]]:
        """Event type → the names of the workflows that listen to it in any version."""
        names: dict[str, dict[str, None]] = defaultdict(dict)
        for each in self.all():
            for event_type in each.roles:
                names[event_type][each.name] = None
        return {event_type: list(found) for event_type, found in names.items()}

    def with_stored(self, stored: Iterable[Definition]) -> Registry:
        return Registry(self._offered.values(), [*self._stored.values(), *stored])


def registry() -> Registry:
    """The definitions in the folders of the setting, or the shipped ones."""
    return load(hub().workflow_definitions or (SHIPPED,))


@lru_cache(maxsize=8)
def load(folders: tuple[Path, ...]) -> Registry:
    # Relative to the common folder: two folders may have a file of the same name.
    top = Path(commonpath(folders))
    files = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
    return Registry(read(file, str(file.relative_to(top))) for file in files)


def read(file: Path, called: str = "") -> Definition:
    """`called`: the file's name in errors, if not its own."""
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
