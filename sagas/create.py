"""Creates deliveries (sagas): routed ones of generation 0, and redelivered ones of the next generation.

A trigger creates the requeued ones, when the record of a requeue is inserted.
"""

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


class SagaKey(NamedTuple):
    """The unique key of a saga."""

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
    def key(self) -> SagaKey:
        return SagaKey(self.event_id, self.subscription_id, self.generation)


def create_sagas(new_sagas: Sequence[NewSaga], batch_size: int) -> set[SagaKey]:
    """Insert Pending sagas and count them; an existing saga is left unchanged.

    Returns the keys that this call created. Of several concurrent callers, exactly one creates a saga.
    """
    return in_transaction(lambda: _create(new_sagas, batch_size)) if new_sagas else set()


def _create(new_sagas: Sequence[NewSaga], batch_size: int) -> set[SagaKey]:
    now = clock.now()
    rows = [
        {
            "event_id": new.event_id,
            "subscription_id": new.subscription_id,
            "generation": new.generation,
            "status": PENDING,
            "attempt_count": 0,
            "next_attempt_at": now,
            "max_retry_limit": new.policy.max_retry_limit,
            "base_delay": new.policy.base_delay,
            "retry_delays": new.policy.retry_delays,
            "created_at": now,
            "updated_at": now,
        }
        for new in new_sagas
    ]
    created: set[SagaKey] = set()
    for start in range(0, len(rows), batch_size):
        inserted = insert_which(Saga, rows[start : start + batch_size], key=SagaKey._fields)
        created |= {SagaKey(*(row[name] for name in SagaKey._fields)) for row in inserted}
    _count("requeued" if new_sagas[0].generation else "routed", len(created))
    return created


def count_requeued(count: int) -> None:
    """Counts sagas that a trigger has created in this transaction, and notifies the orchestrator."""
    _count("requeued", count)


def _count(origin: str, count: int) -> None:
    notify("orchestrator")
    counters.add({(counters.DELIVERIES, origin): count})


def routed_events(subscription_id: int, event_ids: Collection[int]) -> set[int]:
    """The events, out of `event_ids`, that have a routed saga for this subscription."""
    sagas = Saga.objects.filter(event_id__in=event_ids, subscription_id=subscription_id, generation=0)
    return set(sagas.values_list("event_id", flat=True))


def routed_log_fields(event_ids: Collection[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The event id and the log fields of each routed saga of these events."""
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
