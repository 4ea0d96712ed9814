"""One producer: publishes its share of events in every way there is, and writes down what it was promised.

Before it asks for anything it writes what it is about to ask; after a commit has returned it writes that the events
are acknowledged. What is written as acknowledged must be in the hub, what is written as rolled back must not be, and of
what stands between (its process or its database was killed in the middle) both are right.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .journal import Journal
from .stage import UNWANTED, WORKFLOW_STEPS

TRACKED = "a step of a workflow"
TYPES = {"order.created": 84, "order.refused": 8, "order.slow": 3, UNWANTED: 5, TRACKED: 20}
LONGEST_HOLD_SECONDS = 4.0
GIVE_UP_SECONDS = 120.0
DUPLICATE_KEY = 1062


class Producer:
    def __init__(self, name: str, rng: random.Random, journal: Journal) -> None:
        from events.intake import NewEvent

        self._new = NewEvent
        self._name = name
        self._rng = rng
        self._journal = journal
        self._source = name
        self._step = 0
        # way: how many events at once, how often
        self._ways: dict[Callable[[list[Any]], None], tuple[int, int]] = {
            self._one: (1, 30),
            self._many: (12, 16),
            self._transaction: (3, 24),
            self._held: (2, 5),
            self._other_program: (1, 20),
            self._rolled_back: (2, 5),
        }

    def publish(self, first: int, most: int) -> int:
        """Publish some events, numbered from `first`; returns how many it was."""
        ways = list(self._ways)
        [way] = self._rng.choices(ways, [self._ways[each][1] for each in ways])
        events = [self._event(first + offset) for offset in range(min(most, self._ways[way][0]))]
        asked = [{"id": event.external_id, "type": event.event_type, "payload": event.payload} for event in events]
        self._journal.write("intent", source=self._source, way=way.__name__.strip("_"), events=asked)
        said = "rolled back" if way.__name__ == "_rolled_back" else "acknowledged"
        self._insist(lambda: way(events))
        self._journal.write(said, source=self._source, ids=[event.external_id for event in events])
        return len(events)

    def _event(self, number: int) -> Any:
        [event_type] = self._rng.choices(list(TYPES), list(TYPES.values()))
        payload = {"key": f"{self._name}-{number}", "text": "zäh " * self._rng.randint(0, 20)}
        correlation = None
        if event_type == TRACKED:
            # One workflow after the other; a step that is rolled back is missing from its workflow.
            run, step = divmod(self._step, len(WORKFLOW_STEPS))
            event_type, correlation = WORKFLOW_STEPS[step], f"{self._name}-run-{run}"
            payload["customer_id"] = correlation
            self._step += 1
        return self._new(event_type, payload, self._source, self._identity(number), correlation)

    def _identity(self, number: int) -> str:
        """The event's external id, which its source has given to no other."""
        return str(number)

    def _insist(self, work: Callable[[], None]) -> None:
        """Ask until there is an answer: to ask again with the same external id is what a producer should do."""
        from django.db import DatabaseError, InterfaceError, connection

        from webhookhub.db import vendors

        until = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return work()
            except (DatabaseError, InterfaceError) as error:
                injected = vendors.is_lost(error) or vendors.is_conflict(error)
                if not injected or time.monotonic() > until:
                    raise
                connection.close()
                time.sleep(self._rng.uniform(0.05, 0.5))

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
        """Others that come later commit before it."""
        self._transaction(events, self._rng.uniform(0.5, LONGEST_HOLD_SECONDS))

    def _rolled_back(self, events: list[Any]) -> None:
        from django.db import transaction

        with transaction.atomic():
            for event in events:
                self._one([event])
            time.sleep(self._rng.choice([0.0, 0.5]))
            transaction.set_rollback(True)

    def _other_program(self, events: list[Any]) -> None:
        """SQL of its own, and none of the hub's code."""
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
                marks = ", ".join(["%s"] * len(values))
                cursor.execute(f"INSERT INTO events ({', '.join(values)}) VALUES ({marks})", list(values.values()))
        except IntegrityError as error:
            if error.args[0] != DUPLICATE_KEY:
                raise
            # Asked before, and the answer was lost.


def main(arguments: Sequence[str]) -> None:
    """Name, seed, share, seconds to spread it over, journal."""
    name, seed, share, seconds, journal = arguments
    with Journal(Path(journal), durable=True) as written:
        spread(Producer(name, random.Random(seed), written), int(share), float(seconds))


def spread(producer: Producer, share: int, seconds: float) -> None:
    started, done = time.monotonic(), 0
    while done < share:
        time.sleep(max(0.0, started + done * seconds / share - time.monotonic()))
        done += producer.publish(done, share - done)
