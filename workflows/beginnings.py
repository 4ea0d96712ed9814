"""What sagas that ended under an older version began with, read as the version in force reads it.

A producer may say again what it has said before. Under another key it would look like another case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from .matching import Known, is_late
from .models import Fact
from .paths import Document
from .registry import Registry
from .sightings import PIECE, Key
from .words import EVENT


def keys(registry: Registry, sagas: Mapping[Key, Known]) -> dict[int, set[str]]:
    """Saga → the keys of the events that began it, of those that are late; mostly there are none."""
    late = {saga.id: (name, saga.version) for (name, _), saga in sagas.items() if is_late(registry, name, saga)}
    ids = sorted(late)
    found: dict[int, set[str]] = defaultdict(set)
    for start in range(0, len(ids), PIECE):
        facts = Fact.objects.filter(instance_id__in=ids[start : start + PIECE], origin=EVENT)
        facts = facts.filter(event__event_type__in=_starts(registry, set(late.values())))
        for id, correlation_id, payload in facts.values_list("instance_id", "event__correlation_id", "event__payload"):
            key = Document(correlation_id, payload).key(registry.latest[late[id][0]].correlation)
            if key is not None:
                found[id].add(key)
    return found


def _starts(registry: Registry, versions: set[tuple[str, int]]) -> set[str]:
    definitions = [registry.get(*each) for each in versions]
    return {event_type for each in definitions if each is not None for event_type in each.starts}
