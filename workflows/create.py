"""The rows of sagas that begin, each in the version in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from webhookhub.db import clock
from webhookhub.db.bulk import insert_new

from . import versions
from .definition import Definition
from .models import Instance
from .registry import Registry
from .services import row
from .sightings import Key

ROWS = 1000
# No shorter than a tracker's lease: by then nobody has a batch in hand any more that was begun before.
SETTLING = timedelta(seconds=10)


class TakingOver(Exception):
    """A version that goes by another key has just come into force. Another process may be about to begin a saga of the
    same case under the old key: what would begin now waits until that can be seen."""


class Births:
    """Remembers which versions are stored and have been in force for long enough."""

    def __init__(self) -> None:
        self._settled: set[tuple[str, int]] = set()

    def give(self, registry: Registry, keys: Sequence[Key]) -> None:
        latest = [registry.latest[name] for name in {name for name, _ in keys}]
        self._settle([each for each in latest if (each.name, each.version) not in self._settled])
        rows = [row(registry.latest[name], key) for name, key in keys]
        for start in range(0, len(rows), ROWS):
            insert_new(Instance, rows[start : start + ROWS], key=("saga_type", "correlation_key"))

    def _settle(self, definitions: Sequence[Definition]) -> None:
        if not definitions:
            return
        versions.remember(definitions)
        if _are_taking_over(definitions):
            raise TakingOver
        self._settled |= {(each.name, each.version) for each in definitions}


def _are_taking_over(definitions: Iterable[Definition]) -> bool:
    since = [moment for each in definitions if (moment := versions.took_over_at(each)) is not None]
    return bool(since) and max(since) > clock.now() - SETTLING
