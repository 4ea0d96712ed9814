"""A producer elsewhere: it has the hub's address, a key and the client, and takes a 2xx for a promise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webhookhub.client import Client, Event, Unavailable, raise_for_failures

from .journal import Journal
from .producer import GIVE_UP_SECONDS, Producer, spread
from .stage import WEB_SOURCE

REQUEST_SECONDS = 5.0
CALL_SECONDS = 20.0


class WebProducer(Producer):
    """The external ids begin with the name of this life: the source is that of the key."""

    def __init__(self, name: str, rng: random.Random, journal: Journal, client: Client) -> None:
        super().__init__(name, rng, journal)
        self._client = client
        self._source = WEB_SOURCE
        self._ways = {self._by_http: (1, 70), self._batch_by_http: (12, 30)}

    def _identity(self, number: int) -> str:
        return f"{self._name}-{number}"

    def _insist(self, work: Callable[[], None]) -> None:
        until = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return work()
            except Unavailable:
                if time.monotonic() > until:
                    raise

    def _by_http(self, events: list[Any]) -> None:
        [event] = events
        self._client.publish(event.event_type, event.payload, event.external_id, event.correlation_id)

    def _batch_by_http(self, events: list[Any]) -> None:
        sent = [Event(each.event_type, each.payload, each.external_id, each.correlation_id) for each in events]
        raise_for_failures(self._client.publish_many(sent))


def main(arguments: Sequence[str]) -> None:
    """Name, seed, share, seconds to spread it over, journal, the hub's address, file of the key."""
    name, seed, share, seconds, journal, url, key = arguments
    client = Client(url, Path(key).read_text(), timeout=REQUEST_SECONDS, deadline=CALL_SECONDS)
    with Journal(Path(journal), durable=True) as written, client:
        spread(WebProducer(name, random.Random(seed), written, client), int(share), float(seconds))
