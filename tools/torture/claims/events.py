"""Claims about stored events: the producers' journals against `events`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.torture.claims.workflows import HUB
from tools.torture.observations import Event, Observations


def stored_as_sent(observed: Observations) -> Iterator[str]:
    """Every acknowledged event is stored; every stored event is stored once and as it was sent."""
    stored: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in observed.events.values():
        stored[event.key].append(event)
    yield from (f"{key} is not stored" for key in sorted(observed.acknowledged - stored.keys()))
    for key, events in stored.items():
        if len(events) > 1:
            yield f"{key} is stored {len(events)} times"
        for event in events:
            if key in observed.sent and (event.event_type, event.payload) != observed.sent[key]:
                yield f"{key} is stored as {event}, not as it was sent"


def nothing_else_is_stored(observed: Observations) -> Iterator[str]:
    for event in observed.events.values():
        if event.key in observed.rolled_back:
            yield f"event {event.id} {event.key} should have been rolled back"
        elif event.key not in observed.sent and event.key[0] != HUB:
            yield f"event {event.id} {event.key} was never sent"


def transactions_are_atomic(observed: Observations) -> Iterator[str]:
    stored = {event.key for event in observed.events.values()}
    for keys in observed.transactions:
        if keys & stored and keys - stored:
            yield f"{sorted(keys & stored)} are stored without {sorted(keys - stored)} of the same transaction"
