"""Fold the stored facts again and compare with the rows and the published events: they must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from threading import Event as Timer

from . import events, facts
from .advance import differences
from .fold import fold
from .models import Fact, Instance
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
    """Every run, batch by batch. Differences are checked twice, because trackers may be at work."""
    last = 0
    while ids := list(Instance.objects.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:batch_size]):
        last = ids[-1]
        yield Batch(len(ids), last, check(ids, registry))


def check(ids: Collection[int], registry: Registry) -> list[Difference]:
    """The differences of these runs."""
    found = list(_differences(ids, registry))
    if found:
        Timer().wait(RECHECK_SECONDS)
        found = list(_differences({difference.instance.pk for difference in found}, registry))
    return found


def _differences(ids: Collection[int], registry: Registry) -> Iterator[Difference]:
    runs = list(Instance.objects.filter(id__in=ids).order_by("id"))
    facts_of, published = facts.of(ids), _published(ids)
    for run in runs:
        own = facts_of[run.pk]
        definition = registry.get(run.saga_type, run.definition_version)
        if definition is None:
            yield Difference(run, "definition_version", run.definition_version, "a known version")
        elif any(fact.role in OBSERVED for fact in own):
            state = fold(definition, own)
            if state.next is not None or state.effects:
                yield Difference(run, "decisions", "incomplete", state.next or state.effects)
            for column, value in differences(run, state).items():
                yield Difference(run, column, getattr(run, column), value)
            aggregates = {fact.aggregate_id for fact in own}
            for event_id, effect, stored in published[run.pk]:
                payload = events.payload(run, state, effect)
                if not events.agrees(stored, payload, aggregates):
                    yield Difference(run, f"event {event_id}", stored[:MAX_SHOWN], payload)
        elif run.version:
            yield Difference(run, "facts", "none", "at least one")


def _published(ids: Collection[int]) -> dict[int, list[tuple[int, Effect, str]]]:
    """Run → (event, effect, payload) of what the hub has published about it."""
    published: dict[int, list[tuple[int, Effect, str]]] = defaultdict(list)
    rows = Fact.objects.filter(instance_id__in=ids, role=EMITTED).order_by("id")
    columns = ("instance_id", "event_id", "detail", "step", "event__payload")
    for instance_id, event_id, kind, step, payload in rows.values_list(*columns):
        published[instance_id].append((event_id or 0, Effect(kind, step), payload or ""))
    return published
