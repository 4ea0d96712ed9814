"""`python -m tools.failover.producer NAME URL KEY_FILE JOURNAL RATE BURST`: publishes until SIGTERM.

RATE events per second one by one and, if BURST is not 0, every three seconds a batch of so many. The journal has the
form of the torture's producers.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.torture.journal import Journal
from tools.torture.prepare import WEB_SOURCE
from webhookhub.client import Client, Event, Unavailable, raise_for_failures

EVENT_TYPE = "order.created"
BURST_SECONDS = 3.0
REQUEST_SECONDS = 5.0
CALL_SECONDS = 10.0


class Producer:
    def __init__(self, name: str, client: Client, journal: Journal) -> None:
        self._name = name
        self._client = client
        self._journal = journal
        self._count = 0
        self.is_stopping = False

    def publish(self, count: int) -> None:
        """Repeats until it succeeds, with the same external ids, as producers should."""
        events = [self._event() for _ in range(count)]
        sent = [{"id": each.external_id, "type": each.event_type, "payload": each.payload} for each in events]
        self._journal.write("intent", source=WEB_SOURCE, method="many" if count > 1 else "one", events=sent)
        if self._sent(self._one if count == 1 else self._many, events):
            self._journal.write("acknowledged", source=WEB_SOURCE, ids=[each.external_id for each in events])

    def _event(self) -> Event:
        self._count += 1
        key = f"{self._name}-{self._count}"
        return Event(EVENT_TYPE, {"key": key}, key)

    def _sent(self, send: Callable[[Sequence[Event]], Any], events: Sequence[Event]) -> bool:
        while not self.is_stopping:
            try:
                send(events)
            except Unavailable:
                continue
            return True
        return False

    def _one(self, events: Sequence[Event]) -> None:
        [event] = events
        self._client.publish(event.event_type, event.payload, event.external_id)

    def _many(self, events: Sequence[Event]) -> None:
        raise_for_failures(self._client.publish_many(events))


def main() -> None:
    name, url, key_file, path, rate, burst = sys.argv[1:]
    client = Client(url, Path(key_file).read_text(), timeout=REQUEST_SECONDS, deadline=CALL_SECONDS)
    with Journal(Path(path)) as journal, client:
        producer = Producer(name, client, journal)
        signal.signal(signal.SIGTERM, lambda number, frame: setattr(producer, "is_stopping", True))
        next_at = burst_at = time.monotonic()
        while not producer.is_stopping:
            if int(burst) and time.monotonic() >= burst_at:
                burst_at = time.monotonic() + BURST_SECONDS
                producer.publish(int(burst))
            producer.publish(1)
            # After an outage at the usual rate, not all that was missed at once.
            next_at = max(next_at + 1 / float(rate), time.monotonic() - 1.0)
            time.sleep(max(0.0, next_at - time.monotonic()))


if __name__ == "__main__":
    main()
