"""Many events cut into requests that the hub accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .events import Encoded

MOST_EVENTS = 1000
MOST_BYTES = 4_000_000
HEAD, BETWEEN, TAIL = b'{"events":[', b",", b"]}"


def cut(events: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    batch: list[Encoded] = []
    size = 0
    for event in events:
        if batch and (len(batch) == MOST_EVENTS or size + len(event.body) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event.body) + len(BETWEEN)
    if batch:
        yield batch


def body(batch: Iterable[Encoded]) -> bytes:
    return HEAD + BETWEEN.join(event.body for event in batch) + TAIL
