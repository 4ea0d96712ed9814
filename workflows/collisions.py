"""Events that no saga can have, because the key that they have now was an older saga's key and meant something else.

Within one name a key stands for one saga, and the database holds to it. Such an event is told of, for it is lost to the
workflow otherwise without a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from events.models import Event
from webhookhub.logs import Fact as Told
from webhookhub.logs import log

from .matching import Finding, Known
from .models import Instance
from .registry import Registry
from .sightings import Key, Seen


def tell(
    registry: Registry, seen: Mapping[Key, Sequence[Seen]], sagas: Mapping[Key, Known], found: Iterable[Finding]
) -> None:
    lost = list(_lost(registry, seen, sagas, found))
    if not lost:
        return
    uids = dict(Event.objects.filter(id__in=[each.event_id for _, _, each in lost]).values_list("id", "uid"))
    known = dict(Instance.objects.filter(id__in=[saga.id for _, saga, _ in lost]).values_list("id", "saga_id"))
    for (name, key), saga, each in lost:
        log(
            Told.WORKFLOW_KEY_TAKEN,
            event_uid=str(uids[each.event_id]),
            saga_type=name,
            version=registry.latest[name].version,
            correlation_id=key,
            taken_by=str(known[saga.id]),
            taken_by_version=saga.version,
        )


def _lost(
    registry: Registry, seen: Mapping[Key, Sequence[Seen]], sagas: Mapping[Key, Known], found: Iterable[Finding]
) -> Iterator[tuple[Key, Known, Seen]]:
    placed = {each.belongs for each in found}
    for key, saga in sagas.items():
        current, own = registry.latest.get(key[0]), registry.get(key[0], saga.version)
        if current is None or own is None or own.correlation == current.correlation:
            continue
        for each in seen[key]:
            is_current = each.reading == current.reading and each.event_type in current.roles
            if is_current and (key[0], each.event_id) not in placed:
                yield key, saga, each
