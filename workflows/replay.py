"""Fold the stored facts again and compare with the rows and the published events: they must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from threading import Event as Timer

from . import events, facts
from .events import Identity
from .fold import fold
from .models import Fact, Instance
from .progress import PROJECTED, projection
from .registry import Registry
from .state import EMITTED, OBSERVED, Effect

RECHECK_SECONDS = 0.5
MAX_SHOWN = 300


@dataclass(frozen=True)
class Difference:
    instance: Instance
    column: str
    stored: object
    folded: object

    def __str__(self) -> str:
        return f"{self.instance}: {self.column} is {self.stored!r} and should be {self.folded!r}"


@dataclass(frozen=True)
class Batch:
    runs: int
    last_id: int
    differences: list[Difference]


def replay(registry: Registry, batch_size: int) -> Iterator[Batch]:
    """Every run, batch by batch. Differences are checked again after a moment: trackers may be at work."""
    last = 0
    while ids := list(Instance.objects.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:batch_size]):
        last = ids[-1]
        found = list(_differences(ids, registry))
        if found:
            Timer().wait(RECHECK_SECONDS)
            found = list(_differences({each.instance.pk for each in found}, registry))
        yield Batch(len(ids), last, found)


def _differences(ids: Collection[int], registry: Registry) -> Iterator[Difference]:
    rows = list(Instance.objects.filter(id__in=ids).order_by("id"))
    known, published = facts.of(ids), _published(ids)
    for row in rows:
        its = known[row.pk]
        definition = registry.get(row.saga_type, row.definition_version)
        if definition is None:
            yield Difference(row, "definition_version", row.definition_version, "a known version")
        elif any(fact.role in OBSERVED for fact in its):
            state = fold(definition, its)
            folded = dict(zip(PROJECTED, projection(state), strict=True))
            if state.next is not None or state.effects:
                yield Difference(row, "decisions", "incomplete", state.next or state.effects)
            for column, value in folded.items():
                if getattr(row, column) != value:
                    yield Difference(row, column, getattr(row, column), value)
            aggregates = {fact.aggregate_id for fact in its}
            for event_id, kind, step, stored in published[row.pk]:
                wanted = events.payload(_identity(row), state, Effect(kind, step))
                if not events.agrees(stored, wanted, aggregates):
                    yield Difference(row, f"event {event_id}", stored[:MAX_SHOWN], wanted)
        elif row.version:
            yield Difference(row, "facts", "none", "at least one")


def _published(ids: Collection[int]) -> dict[int, list[tuple[int, str, str, str]]]:
    """Run → (event, type, step, payload) of what the hub has published about it."""
    found: dict[int, list[tuple[int, str, str, str]]] = defaultdict(list)
    rows = Fact.objects.filter(instance_id__in=ids, role=EMITTED).order_by("id")
    for id, event_id, kind, step, payload in rows.values_list(
        "instance_id", "event_id", "detail", "step", "event__payload"
    ):
        found[id].append((event_id or 0, kind, step, payload or ""))
    return found


def _identity(row: Instance) -> Identity:
    return Identity(row.pk, row.saga_id, row.saga_type, row.definition_version, row.correlation_key)
