"""The rows of sagas that begin, each in the version in force."""

from __future__ import annotations

from collections.abc import Sequence

from webhookhub.db.statements import insert_new

from . import used
from .models import Instance
from .registry import Registry
from .sightings import Key
from .verbs import row

ROWS = 1000


class Births:
    """Remembers which versions it has stored already."""

    def __init__(self) -> None:
        self._remembered: set[tuple[str, int]] = set()

    def give(self, registry: Registry, keys: Sequence[Key]) -> None:
        latest = [registry.latest[name] for name in {name for name, _ in keys}]
        new = [each for each in latest if (each.name, each.version) not in self._remembered]
        if new:
            used.remember(new)
            self._remembered |= {(each.name, each.version) for each in new}
        rows = [row(registry.latest[name], key) for name, key in keys]
        for start in range(0, len(rows), ROWS):
            insert_new(Instance, rows[start : start + ROWS], key=("saga_type", "correlation_key"))
