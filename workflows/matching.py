"""To which sagas the events at hand belong: to every one whose own version finds them.

Versions of a definition may tell sagas apart by different keys. What a saga finds that is open, or that goes by the
same key as the version in force, is its own. One that has ended under another key still hears what comes late; but only
what is nobody else's, and not for ever: that key may mean less than the new one, and stand for other cases by then.
What has the very key, by the version in force, that the saga's own beginning has is of the same case, at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from .definition import Definition
from .models import Instance
from .registry import Registry
from .sightings import Key, Seen, heard
from .words import OPEN

# Type of the saga and number of the event.
Belongs = tuple[str, int]


class Known(NamedTuple):
    """A saga that exists."""

    id: int
    version: int
    status: str
    ended_at: datetime | None
    # Its facts were never folded: whoever gave birth to it may have died before all of them were written.
    is_new: bool


class Finding(NamedTuple):
    """A saga finds an event; `late` if it has ended and goes by another key than the version in force, and then `same`
    if the event is known to be of the same case."""

    key: Key
    saga: Known
    seen: Seen
    late: bool
    same: bool

    @property
    def belongs(self) -> Belongs:
        return self.key[0], self.seen.event_id


def existing(keys: Iterable[Key]) -> dict[Key, Known]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, key in keys:
        by_name[name].append(key)
    found: dict[Key, Known] = {}
    for name, wanted in by_name.items():
        rows = Instance.objects.filter(saga_type=name, correlation_key__in=wanted)
        columns = rows.values_list("correlation_key", "id", "definition_version", "status", "completed_at", "version")
        for key, id, version, status, ended_at, writes in columns:
            found[name, key] = Known(id, version, status, ended_at, writes == 0)
    return found


def is_late(registry: Registry, name: str, saga: Known) -> bool:
    """Whether it has ended and goes by another key than the version in force."""
    definition, current = registry.get(name, saga.version), registry.latest.get(name)
    if definition is None or current is None:
        return False
    return saga.status not in OPEN and current.correlation != definition.correlation


def findings(
    registry: Registry,
    seen: Mapping[Key, Sequence[Seen]],
    sagas: Mapping[Key, Known],
    began: Mapping[int, Collection[str]],
) -> list[Finding]:
    """`began`: saga → the keys, by the version in force, of what it began with; of those that are late."""
    found = []
    keys = _current_keys(registry, seen) if began else {}
    for key, saga in sagas.items():
        definition = registry.get(key[0], saga.version)
        if definition is None:
            continue  # of a newer program, and first used a moment ago: the tracker looks again
        late = is_late(registry, key[0], saga)
        for each in seen[key]:
            if each.reading != definition.reading or each.event_type not in definition.roles:
                continue
            same = late and keys.get((key[0], each.event_id)) in began.get(saga.id, ())
            if not late or same or _is_in_time(each, saga, definition):
                found.append(Finding(key, saga, each, late, same))
    return found


def _is_in_time(seen: Seen, saga: Known, definition: Definition) -> bool:
    return seen.at - (saga.ended_at or seen.at) <= definition.timeout + definition.compensation_timeout


def _current_keys(registry: Registry, seen: Mapping[Key, Sequence[Seen]]) -> dict[Belongs, str]:
    """The key of each event by the version in force."""
    return {
        (name, each.event_id): key
        for (name, key), said in seen.items()
        if name in registry.latest
        for each in said
        if each.reading.correlation == registry.latest[name].correlation
    }


def settled(found: Iterable[Finding]) -> list[Finding]:
    """Without those of sagas that have ended, where the event is another's own."""
    found = list(found)
    own = {each.belongs for each in found if not each.late}
    return [each for each in found if not each.late or each.belongs not in own]


def just_born(registry: Registry, sagas: Mapping[Key, Known]) -> list[Key]:
    """Those that began in the version in force, and of which no more is known than that."""
    latest = registry.latest
    return [
        (name, key)
        for (name, key), saga in sagas.items()
        if saga.is_new and name in latest and saga.version == latest[name].version
    ]


def unborn(
    registry: Registry, seen: Mapping[Key, Sequence[Seen]], sagas: Mapping[Key, Known], found: Iterable[Finding]
) -> list[Key]:
    """Those of the keys with which a saga begins, in the version in force: its events belong to none.

    One that has ended under another version lets the next begin with an event that begins one; but not if that is of
    the same case and told again, nor if it had this very event before it ended, and it is looked at again.
    """
    missing = {key: said for key, said in seen.items() if key not in sagas and key[0] in registry.latest}
    wanted = {(name, each.event_id) for (name, _), said in missing.items() for each in said}
    taken, passed_on = set[Belongs](), set[Belongs]()
    for each in found:
        if each.belongs in wanted:
            starts = registry.latest[each.key[0]].starts
            (passed_on if each.late and not each.same and each.seen.event_type in starts else taken).add(each.belongs)
    taken |= passed_on & heard({event_id for _, event_id in passed_on})
    return [
        (name, key)
        for (name, key), said in missing.items()
        if any(
            each.reading == registry.latest[name].reading
            and each.event_type in registry.latest[name].roles
            and (name, each.event_id) not in taken
            for each in said
        )
    ]
