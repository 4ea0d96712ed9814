"""Creates deliveries (sagas): routed ones of generation 0, and redelivered ones of the next generation.

A trigger creates the requeued ones, when the record of a requeue is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from django.db.models import Count

from webhookhub.db.bulk import insert_one, insert_which
from webhookhub.db.compiled import CompiledSelect, as_number
from webhookhub.db.retry import in_transaction
from webhookhub.runner.notifier import notify
from webhookhub.stats import counters

from .models import Saga
from .policy import RetryPolicy
from .transitions import PENDING

T = TypeVar("T")
ENDPOINT = "endpoint_id"


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
    # The event's.
    customer_key: str
    # The subscription's; of a later generation, that of the one before.
    endpoint_id: int | None = None

    @property
    def key(self) -> SagaKey:
        return SagaKey(self.event_id, self.subscription_id, self.generation)


class CreatedSaga(NamedTuple):
    id: int
    key: SagaKey


def create_sagas(
    new_sagas: Sequence[NewSaga], batch_size: int, *, counted_later: Collection[int] = frozenset()
) -> set[SagaKey]:
    """Insert Pending sagas and count them; an existing saga is left unchanged.

    Returns the keys that this call created. Of several concurrent callers, exactly one creates a saga. The sagas of the
    events `counted_later` are counted by the router, when it removes the events from its inbox.
    """

    def create() -> set[SagaKey]:
        created = {saga.key for saga in insert_sagas(new_sagas, batch_size)}
        count = sum(key.event_id not in counted_later for key in created)
        counters.add({(counters.DELIVERIES, "sent_again" if new_sagas[0].generation else "routed"): count})
        return created

    return in_transaction(create) if new_sagas else set()


def insert_sagas(new_sagas: Sequence[NewSaga], batch_size: int) -> list[CreatedSaga]:
    """Insert Pending sagas, without counting them; returns those that this call created."""
    # The columns that are left out are times; the database sets them.
    rows = [
        {
            "event_id": new.event_id,
            "subscription_id": new.subscription_id,
            **({"generation": new.generation} if new.generation else {}),
            "endpoint_id": new.endpoint_id,
            "customer_key": new.customer_key,
            "status": PENDING,
            "attempt_count": 0,
            "max_retry_limit": new.policy.max_retry_limit,
            "base_delay": new.policy.base_delay,
            "retry_delays": new.policy.retry_delays,
        }
        for new in new_sagas
    ]
    # The router's database role may not give a generation, and needs none: where there is a later one, there is 0.
    key = SagaKey._fields if new_sagas[0].generation else SagaKey._fields[:2]
    # Another subscription of the endpoint may have got the event: it is delivered once.
    once = tuple(ENDPOINT if name == "subscription_id" else name for name in key)
    if len(rows) == 1:
        pk = insert_one(Saga, rows[0], key=key, other_key=once)
        created = [] if pk is None else [CreatedSaga(pk, new_sagas[0].key)]
    else:
        inserted: set[SagaKey] = set()
        for start in range(0, len(rows), batch_size):
            batch = insert_which(Saga, rows[start : start + batch_size], key=key, other_key=once)
            inserted |= {SagaKey(row["event_id"], row["subscription_id"], row.get("generation", 0)) for row in batch}
        created = _with_ids(inserted)
    if created:
        for saga in created:
            subscription_ids.remember(saga.id, saga.key.subscription_id)
        notify("orchestrator", "deliveries", [saga.id for saga in created])
    return created


def _with_ids(keys: Collection[SagaKey]) -> list[CreatedSaga]:
    if not keys:
        return []
    rows = [(pk, SagaKey(*key)) for pk, *key in _ids(event_ids=list({key.event_id for key in keys}))]
    return [CreatedSaga(pk, key) for pk, key in rows if key in keys]


_ids = CompiledSelect(
    lambda event_ids: (
        Saga.objects.alias(number=as_number("event_id"))
        .filter(number__in=event_ids)
        .order_by("id")
        .values_list("id", *SagaKey._fields)
    )
)


def count_routed(event_ids: Sequence[int]) -> set[int]:
    """Counts the routed sagas of events that leave the inbox in this transaction; returns the events that have any.

    Read from the table: the process that has created them may have ended since.
    """
    routed = dict(_routed(event_ids=event_ids, generation=0))
    counters.add(
        {
            (counters.DELIVERIES, "routed"): sum(routed.values()),
            (counters.EVENTS_ROUTED, "matched"): len(routed),
            (counters.EVENTS_ROUTED, "unmatched"): len(event_ids) - len(routed),
        }
    )
    return set(routed)


_routed = CompiledSelect(
    lambda event_ids, generation: (
        Saga.objects.alias(number=as_number("event_id"))
        .filter(number__in=event_ids, generation=generation)
        .values("event_id")
        .annotate(count=Count("id"))
        .order_by()
        .values_list("event_id", "count")
    )
)


def count_requeued(count: int) -> None:
    """Counts sagas that a trigger has created in this transaction, and notifies the orchestrator."""
    notify("orchestrator")
    counters.add({(counters.DELIVERIES, "requeued"): count})


def routed_events(subscription_id: int, event_ids: Collection[int]) -> set[int]:
    """The events, out of `event_ids`, that have a routed saga for this subscription."""
    sagas = Saga.objects.filter(event_id__in=event_ids, subscription_id=subscription_id, generation=0)
    return set(sagas.values_list("event_id", flat=True))


class _Recent(Generic[T]):
    """A value of sagas that this process has created or logged lately: it never changes, and is needed again soon."""

    LIMIT = 10_000

    def __init__(self, read: Callable[[list[int]], Iterable[tuple[int, T]]]) -> None:
        self._read = read
        self._by_saga: dict[int, T] = {}

    def clear(self) -> None:
        self._by_saga.clear()

    def remember(self, saga_id: int, value: T) -> None:
        if len(self._by_saga) >= self.LIMIT:
            self.clear()
        self._by_saga[saga_id] = value

    def of(self, saga_ids: Collection[int]) -> dict[int, T]:
        """The value of each saga that exists; unknown ones are read."""
        known = {pk: self._by_saga[pk] for pk in saga_ids if pk in self._by_saga}
        unknown = [pk for pk in saga_ids if pk not in known]
        return known | dict(self._read(unknown)) if unknown else known


_correlation_ids = CompiledSelect(
    lambda ids: Saga.objects.filter(id__in=ids).values_list("id", "event__correlation_id")
)
_subscription_ids = CompiledSelect(lambda ids: Saga.objects.filter(id__in=ids).values_list("id", "subscription_id"))
correlation_ids: _Recent[str] = _Recent(lambda ids: _correlation_ids(ids=ids))
subscription_ids: _Recent[int] = _Recent(lambda ids: _subscription_ids(ids=ids))
