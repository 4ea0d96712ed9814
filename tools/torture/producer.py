"""A producer: publishes its share of events in several ways, and records what it sends and what is acknowledged.

It records each batch before it sends it, and the acknowledgement after the commit. Acknowledged events must be in the
hub, rolled-back ones must not be. A batch with neither entry (the process or the database was killed) may be either.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from webhookhub.client import Client, Event, Unavailable, raise_for_failures

from .journal import Journal
from .prepare import UNWANTED, WEB_SOURCE, WORKFLOW_STEPS

WORKFLOW_STEP = "a step of a workflow"
TYPES = {"order.created": 84, "order.refused": 8, "order.slow": 3, UNWANTED: 5, WORKFLOW_STEP: 20}
MAX_HOLD_SECONDS = 4.0
GIVE_UP_SECONDS = 120.0
REQUEST_SECONDS = 5.0
CALL_SECONDS = 20.0
DUPLICATE_KEY = 1062


class Producer:
    def __init__(self, name: str, rng: random.Random, journal: Journal) -> None:
        from events.intake import NewEvent

        self._new_event = NewEvent
        self._name = name
        self._random = rng
        self._journal = journal
        self._source = name
        self._step = 0
        # method: events at once, weight
        self._methods: dict[Callable[[list[Any]], None], tuple[int, int]] = {
            self._one: (1, 30),
            self._many: (12, 16),
            self._transaction: (3, 24),
            self._held: (2, 5),
            self._plain_sql: (1, 20),
            self._rolled_back: (2, 5),
        }

    def publish(self, first: int, limit: int) -> int:
        """Publishes some events, numbered from `first`. Returns their number."""
        methods = list(self._methods)
        [method] = self._random.choices(methods, [self._methods[method][1] for method in methods])
        events = [self._event(first + offset) for offset in range(min(limit, self._methods[method][0]))]
        sent = [{"id": event.external_id, "type": event.event_type, "payload": event.payload} for event in events]
        self._journal.write("intent", source=self._source, method=method.__name__.strip("_"), events=sent)
        result = "rolled back" if method.__name__ == "_rolled_back" else "acknowledged"
        self._retry(lambda: method(events))
        self._journal.write(result, source=self._source, ids=[event.external_id for event in events])
        return len(events)

    def _event(self, number: int) -> Any:
        [event_type] = self._random.choices(list(TYPES), list(TYPES.values()))
        payload = {"key": f"{self._name}-{number}", "text": "zäh " * self._random.randint(0, 20)}
        correlation = None
        if event_type == WORKFLOW_STEP:
            # One run after the other. A step that is rolled back is missing from its run.
            run, step = divmod(self._step, len(WORKFLOW_STEPS))
            event_type, correlation = WORKFLOW_STEPS[step], f"{self._name}-run-{run}"
            payload["customer_id"] = correlation
            self._step += 1
        return self._new_event(event_type, payload, self._source, self._external_id(number), correlation)

    def _external_id(self, number: int) -> str:
        """Unique within the source."""
        return str(number)

    def _retry(self, publish: Callable[[], None]) -> None:
        """Repeats until it succeeds, with the same external ids, as producers should."""
        from django.db import DatabaseError, InterfaceError, connection

        from webhookhub.db.errors import kind_of

        until = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return publish()
            except (DatabaseError, InterfaceError) as error:
                injected = kind_of(error).is_temporary
                if not injected or time.monotonic() > until:
                    raise
                connection.close()
                time.sleep(self._random.uniform(0.05, 0.5))

    def _one(self, events: list[Any]) -> None:
        from events.intake import publish

        [event] = events
        publish(
            event.event_type,
            event.payload,
            source=event.source,
            external_id=event.external_id,
            correlation_id=event.correlation_id,
        )

    def _many(self, events: list[Any]) -> None:
        from events.intake import Published, publish_many

        for result in publish_many(events):
            if not isinstance(result, Published):
                raise result

    def _transaction(self, events: list[Any], hold: float = 0.0) -> None:
        from django.db import transaction

        with transaction.atomic():
            for event in events:
                self._one([event])
            time.sleep(hold)

    def _held(self, events: list[Any]) -> None:
        """Later transactions commit before this one."""
        self._transaction(events, self._random.uniform(0.5, MAX_HOLD_SECONDS))

    def _rolled_back(self, events: list[Any]) -> None:
        from django.db import transaction

        with transaction.atomic():
            for event in events:
                self._one([event])
            time.sleep(self._random.choice([0.0, 0.5]))
            transaction.set_rollback(True)

    def _plain_sql(self, events: list[Any]) -> None:
        """Inserts a row without the hub's code."""
        from django.db import IntegrityError, connection

        [event] = events
        try:
            with connection.cursor() as cursor:
                values = {
                    "event_type": event.event_type,
                    "source": event.source,
                    "external_id": event.external_id,
                    "payload": json.dumps(event.payload),
                }
                if event.correlation_id:
                    values["correlation_id"] = event.correlation_id
                placeholders = ", ".join(["%s"] * len(values))
                columns = ", ".join(values)
                cursor.execute(f"INSERT INTO events ({columns}) VALUES ({placeholders})", list(values.values()))
        except IntegrityError as error:
            if error.args[0] != DUPLICATE_KEY:
                raise
            # An earlier attempt was committed, but its result was lost.


class HttpProducer(Producer):
    """Uses the API through webhookhub.client."""

    def __init__(self, name: str, rng: random.Random, journal: Journal, client: Client) -> None:
        super().__init__(name, rng, journal)
        self._client = client
        self._source = WEB_SOURCE
        self._methods = {self._by_http: (1, 70), self._batch_by_http: (12, 30)}

    def _external_id(self, number: int) -> str:
        """Includes the name of this process, because all of them use the key's source."""
        return f"{self._name}-{number}"

    def _retry(self, publish: Callable[[], None]) -> None:
        until = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return publish()
            except Unavailable:
                if time.monotonic() > until:
                    raise

    def _by_http(self, events: list[Any]) -> None:
        [event] = events
        self._client.publish(event.event_type, event.payload, event.external_id, event.correlation_id)

    def _batch_by_http(self, events: list[Any]) -> None:
        sent = [Event(event.event_type, event.payload, event.external_id, event.correlation_id) for event in events]
        raise_for_failures(self._client.publish_many(sent))


def main(arguments: Sequence[str]) -> None:
    """`arguments`: name, seed, number of events, seconds, journal; to use the API, also its URL and the key's file."""
    name, seed, count, seconds, path, *api = arguments
    rng = random.Random(seed)
    with Journal(Path(path), durable=True) as journal:
        if api:
            url, key = api
            client = Client(url, Path(key).read_text(), timeout=REQUEST_SECONDS, deadline=CALL_SECONDS)
            with client:
                publish_evenly(HttpProducer(name, rng, journal, client), int(count), float(seconds))
        else:
            publish_evenly(Producer(name, rng, journal), int(count), float(seconds))


def publish_evenly(producer: Producer, count: int, seconds: float) -> None:
    started, done = time.monotonic(), 0
    while done < count:
        time.sleep(max(0.0, started + done * seconds / count - time.monotonic()))
        done += producer.publish(done, count - done)
