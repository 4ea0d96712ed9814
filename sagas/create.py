"""How sagas come into the world: by routing (generation 0) and by requeueing (the next generation)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhookhub.db import clock
from webhookhub.db.bulk import insert_which
from webhookhub.db.retry import in_transaction
from webhookhub.runner.notifier import notify
from webhookhub.stats import counters

from .models import Saga
from .policy import RetryPolicy
from .transitions import PENDING


class Key(NamedTuple):
    """What there is one saga of."""

    event_id: int
    subscription_id: int
    generation: int


@dataclass(frozen=True, slots=True)
class NewSaga:
    event_id: int
    subscription_id: int
    generation: int
    policy: RetryPolicy

    @property
    def key(self) -> Key:
        return Key(self.event_id, self.subscription_id, self.generation)


def insert(births: Sequence[NewSaga], batch_size: int) -> set[Key]:
    """Insert sagas that wait for their first attempt and count them; one that exists already is left as it is.

    Returns the keys of those that are new: of many who insert one at once, exactly one is told that it is theirs.
    """
    return in_transaction(lambda: _insert(births, batch_size)) if births else set()


def _insert(births: Sequence[NewSaga], batch_size: int) -> set[Key]:
    now = clock.now()
    rows = [
        {
            "event_id": birth.event_id,
            "subscription_id": birth.subscription_id,
            "generation": birth.generation,
            "status": PENDING,
            "attempt_count": 0,
            "next_attempt_at": now,
            "max_retry_limit": birth.policy.max_retry_limit,
            "base_delay": birth.policy.base_delay,
            "created_at": now,
            "updated_at": now,
        }
        for birth in births
    ]
    new: set[Key] = set()
    for start in range(0, len(rows), batch_size):
        inserted = insert_which(Saga, rows[start : start + batch_size], key=Key._fields)
        new |= {Key(*(row[name] for name in Key._fields)) for row in inserted}
    notify("orchestrator")
    counters.add({(counters.DELIVERIES, "requeued" if births[0].generation else "routed"): len(new)})
    return new


def routed_to(subscription_id: int, event_ids: Collection[int]) -> set[int]:
    """Those of the events that have their routed saga for this subscription."""
    sagas = Saga.objects.filter(event_id__in=event_ids, subscription_id=subscription_id, generation=0)
    return set(sagas.values_list("event_id", flat=True))


def of_events(event_ids: Collection[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The routed sagas of these events, each with its event's id, in the words of the log."""
    rows = Saga.objects.filter(event_id__in=event_ids, generation=0).values_list(
        "event_id", "id", "subscription_id", "status", "event__uid", "event__correlation_id"
    )
    for event_id, saga_id, subscription_id, status, uid, correlation_id in rows:
        yield (
            event_id,
            {
                "correlation_id": correlation_id,
                "saga_id": saga_id,
                "event_uid": str(uid),
                "subscription_id": subscription_id,
                "delivery_status": status,
            },
        )
