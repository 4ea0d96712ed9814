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

# Used only if the setting names this folder.
SAMPLES = Path(__file__).parent / "samples"


class Registry:
    """`files`: definitions that have a file here. `stored`: definitions that have runs; their files may be gone.

    Raises InvalidDefinition if a version has two files, or if versions of a workflow differ in their correlation.
    """

    def __init__(self, files: Iterable[Definition], stored: Iterable[Definition] = ()) -> None:
        self._files: dict[tuple[str, int], Definition] = {}
        for definition in files:
            same = self._files.setdefault(definition.key, definition)
            if same is not definition:
                raise InvalidDefinition(
                    definition.label,
                    "version",
                    f"is there twice, in {same.file} and in {definition.file}; give one of them another number",
                )
        self._stored = {definition.key: definition for definition in stored}
        self._all = self._stored | self._files
        self._require_same_correlation()

    def _require_same_correlation(self) -> None:
        """An event belongs to one run, found by its key. So the key must not depend on the run's version."""
        # The newest stored version, or the oldest file.
        reference = {name: self._files[name, version] for name, version in sorted(self._files, reverse=True)}
        reference |= {name: self._stored[name, version] for name, version in sorted(self._stored)}
        for definition in self._files.values():
            other = reference[definition.name]
            if definition.correlation != other.correlation:
                raise InvalidDefinition(
                    definition.label_with_file,
                    "correlation",
                    f"is {definition.correlation!r}, and version {other.version} has {other.correlation!r}; all "
                    "versions of a workflow must have the same correlation, so give the new workflow a new name",
                )

    def get(self, name: str, version: int) -> Definition | None:
        return self._all.get((name, version))

    def of_file(self, name: str, version: int) -> Definition | None:
        return self._files.get((name, version))

    def all(self) -> list[Definition]:
        """By name, the newest version first."""
        return sorted(self._all.values(), key=lambda definition: (definition.name, -definition.version))

    def with_stored(self, stored: Iterable[Definition]) -> Registry:
        return Registry(self._files.values(), [*self._stored.values(), *stored])

    def offers(self, definition: Definition) -> bool:
        """Whether it has a file here or is in force."""
        current = self.latest.get(definition.name)
        return definition.key in self._files or (current is not None and current.key == definition.key)

    @cached_property
    def shown(self) -> dict[str, Definition]:
        """Name → its newest version, also of a retired workflow."""
        return {definition.name: definition for definition in reversed(self.all())}

    @cached_property
    def latest(self) -> dict[str, Definition]:
        """Name → the version in force: the newest that has a file here or was ever used. New runs get it.

        Used versions are stored, so processes with different files agree on it.
        """
        return {name: self.shown[name] for name, _ in sorted(self._files)}

    @cached_property
    def overtaken(self) -> list[tuple[Definition, Definition]]:
        """(newest file, version in force) for each workflow whose version in force has no file here."""
        newest = {name: self._files[name, version] for name, version in sorted(self._files)}
        return [(file, self.latest[name]) for name, file in newest.items() if self.latest[name] is not file]

    @cached_property
    def listeners(self) -> dict[str, list[str]]:
        """Event type → the names of the workflows that listen to it in any version."""
        names: dict[str, set[str]] = defaultdict(set)
        for definition in self.all():
            for event_type in definition.roles:
                names[event_type].add(definition.name)
        return {event_type: sorted(listening) for event_type, listening in names.items()}


def registry() -> Registry:
    """The definitions in the folders of the setting; without it, none."""
    return load(hub().workflow_definitions)


@lru_cache(maxsize=8)
def load(folders: tuple[Path, ...]) -> Registry:
    # Relative to the common folder: two folders may have a file of the same name.
    top = Path(commonpath(folders)) if folders else Path()
    files = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
    return Registry(read(file, str(file.relative_to(top))) for file in files)


def read(file: Path, name: str = "") -> Definition:
    """`name`: the file's name in errors, if not its own."""
    name = name or file.name
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDefinition(name, "file", f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidDefinition(name, "file", f"is not TOML: {error}") from None
    except RecursionError:
        raise InvalidDefinition(name, "file", "is nested too deeply; a definition is a table with steps") from None
    return parse(document, name)
