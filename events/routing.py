"""Routes events from the inbox: creates one saga for each matching subscription, then removes the event.

The sagas come first: after a crash in between, the event is routed again, and the keys of its sagas make that a no-op.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from django.db.models import Subquery

from sagas.create import CreatedSaga, NewSaga, correlation_ids, count_routed, insert_sagas
from sagas.policy import RetryPolicy
from sagas.transitions import PENDING
from subscriptions.cache import SubscriptionCache, current_version
from subscriptions.matching import Index, RoutableSubscription, matching, once_per_endpoint
from webhookhub.db.bulk import delete_each
from webhookhub.db.compiled import CompiledSelect, Limit
from webhookhub.db.exists import Condition
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, enabled, log
from webhookhub.runner.hints import Flag, Held, Hints
from webhookhub.runner.portions import Portion
from webhookhub.runner.step import Step

from . import labels
from .models import Event, RoutingInbox

# Limits the sagas of one transaction, so that an event type with very many subscriptions does not hold locks for long.
MAX_NEW_SAGAS = 5000
WAITING = Condition(RoutingInbox)
# In a backlog, events of other types and customers than the most frequent one are looked for among so many ids at once.
LOOK_AHEAD = 5000


class Waiting(NamedTuple):
    """An event of the inbox."""

    event_id: int
    event_type: str
    customer_key: str
    labels: str | None


_waiting = CompiledSelect(
    lambda limit: (
        RoutingInbox.objects.select_for_update(skip_locked=True)
        .order_by("event_id")
        .values_list(*Waiting._fields)[:limit]
    )
)
_others = CompiledSelect(
    lambda after, upto, event_type, customer_key, limit: (
        RoutingInbox.objects.filter(event_id__gt=after, event_id__lte=upto)
        .exclude(event_type=event_type, customer_key=customer_key)
        .order_by("event_id")
        .values_list("event_id")[:limit]
    )
)
# The version in the same statement: it is as new as the rows, so a subscription older than an event is not missed.
_hinted = CompiledSelect(
    lambda ids: (
        RoutingInbox.objects.filter(event_id__in=ids)
        .order_by("event_id")
        .values_list(Subquery(current_version()), *Waiting._fields)
    )
)


class Router:
    def __init__(self) -> None:
        self._subscriptions = SubscriptionCache()
        # Routed events that are still in the inbox.
        self.routed = Held()
        # The last batch, and up to which event others() has looked.
        self._batch: Sequence[Waiting] = ()
        self._looked_to = 0

    def route(self, batch_size: int) -> int:
        """Route one batch of the inbox; returns the number of events.

        The transaction locks the inbox rows against other routers. After a rollback, the next run creates the same
        sagas under the same keys.
        """
        while self.routed:
            self.remove_routed(batch_size)
        taken, created, matched = in_transaction(lambda: self._route(batch_size))
        _log_routed(created)
        _log_unmatched({row.event_id for row in taken} - matched)
        return len(taken)

    def others(self, limit: int) -> list[int]:
        """Events further behind that are not of the type and customer of most of the last batch, `limit` at most.

        A burst, which is more than half of a batch, must not delay all others. Each call looks through a part of the
        inbox, from there on where the call before has ended.
        """
        kinds = Counter((row.event_type, row.customer_key) for row in self._batch)
        [((event_type, customer_key), count)] = kinds.most_common(1) or [(("", ""), 0)]
        if 2 * count <= len(self._batch):
            return []
        after = max(self._looked_to, self._batch[-1].event_id)
        upto = after + LOOK_AHEAD
        rows = _others(after=after, upto=upto, event_type=event_type, customer_key=customer_key, limit=Limit(limit))
        found = [pk for (pk,) in rows]
        if len(found) == limit:
            self._looked_to = found[-1]
        else:
            self._looked_to = upto if upto < _newest() else 0
        return found

    def route_hinted(self, ids: Sequence[int], batch_size: int) -> tuple[int, list[int]]:
        """Route those of these events that are in the inbox; returns how many, and the ids left for another call.

        They are removed from the inbox later, together with others.
        """
        rows = _hinted(ids=ids)
        if not rows:
            return 0, []
        waiting = [Waiting(*row[1:]) for row in rows]
        taken, new = _within_bounds(waiting, self._index(waiting, version=rows[0][0] or 0))
        created = insert_sagas(new, batch_size) if new else []
        self.routed.add([row.event_id for row in taken])
        _log_routed(created)
        return len(taken), [row.event_id for row in waiting[len(taken) :]]

    def remove_routed(self, batch_size: int) -> int:
        """Remove routed events from the inbox, and count them; returns how many were handled."""
        if ids := self.routed.first(batch_size):
            removed, matched = _remove(ids)
            self.routed.remove(ids)
            _log_unmatched(set(removed) - matched)
        return len(ids)

    def _route(self, batch_size: int) -> tuple[Sequence[Waiting], Sequence[CreatedSaga], set[int]]:
        waiting = [Waiting(*row) for row in _waiting(limit=Limit(batch_size))]
        self._batch = waiting
        if not waiting:
            return [], [], set()
        # Read after the events: a subscription that is older than an event must not be missed.
        taken, new = _within_bounds(waiting, self._index(waiting))
        created = insert_sagas(new, batch_size) if new else []
        ids = [row.event_id for row in taken]
        # Row by row: a range delete would wait for producers with open transactions, who lock rows of this table.
        delete_each(RoutingInbox, ids)
        return taken, created, count_routed(ids)

    def _index(self, waiting: Sequence[Waiting], version: int | None = None) -> Index:
        return self._subscriptions.index({row.customer_key for row in waiting}, version)


def _newest() -> int:
    """The newest event of the inbox."""
    return next((pk for (pk,) in _newest_first()), 0)


_newest_first = CompiledSelect(lambda: RoutingInbox.objects.order_by("-event_id").values_list("event_id")[:1])


class _RemovedByAnother(Exception):
    """Another router has removed and counted some of the events."""


def _remove(ids: Sequence[int]) -> tuple[Sequence[int], set[int]]:
    """Remove events from the inbox and count them; returns the removed ones, and those of them that have a saga."""
    try:
        return in_transaction(lambda: _remove_all(ids))
    except _RemovedByAnother:
        return in_transaction(lambda: _remove_waiting(ids))


def _remove_all(ids: Sequence[int]) -> tuple[Sequence[int], set[int]]:
    if delete_each(RoutingInbox, ids) < len(ids):
        raise _RemovedByAnother  # roll back, then find out which ones
    return ids, count_routed(ids)


def _remove_waiting(ids: Sequence[int]) -> tuple[Sequence[int], set[int]]:
    rows = RoutingInbox.objects.filter(event_id__in=ids).select_for_update().order_by("event_id")
    waiting = list(rows.values_list("event_id", flat=True))
    if not waiting:
        return [], set()
    delete_each(RoutingInbox, waiting)
    return waiting, count_routed(waiting)


def _within_bounds(inbox: Sequence[Waiting], index: Index) -> tuple[list[Waiting], list[NewSaga]]:
    """The first events whose sagas fit into one transaction, at least one, and their sagas."""
    taken: list[Waiting] = []
    new: list[NewSaga] = []
    for row in inbox:
        matches = once_per_endpoint(accepting(matching(index, row.customer_key, row.event_type), row.labels))
        if taken and len(new) + len(matches) > MAX_NEW_SAGAS:
            break
        taken.append(row)
        new += [
            NewSaga(row.event_id, match.id, 0, policy(match), row.customer_key, match.endpoint_id) for match in matches
        ]
    return taken, new


def accepting(candidates: list[RoutableSubscription], stored_labels: str | None) -> list[RoutableSubscription]:
    """Those whose filter accepts an event with these labels."""
    if not any(candidate.label_filter for candidate in candidates):
        return candidates
    known = labels.decode(stored_labels)
    return [each for each in candidates if each.label_filter is None or each.label_filter.accepts(known)]


def policy(subscription: RoutableSubscription) -> RetryPolicy:
    return RetryPolicy.with_overrides(subscription.max_retry_limit, subscription.base_delay, subscription.retry_delays)


class RouterStep(Step):
    """Routes hinted events at once, and polls the inbox."""

    def __init__(self) -> None:
        self._router = Router()
        self._poll_soon = Flag()
        self._events = Hints(self._poll_soon)
        self._removed, self._hinted, self._polled = (Portion(self._events) for _ in range(3))

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        self.run_few(batch_size)
        if self._events:
            self._hinted.run(batch_size, lambda limit: self._route_hinted(self._events.take_bulk(limit), batch_size))
            self.between()
        poll = self._poll_soon.take() or poll
        if poll or self._router.routed.due(batch_size):
            self._remove_routed(batch_size)
        return self._poll(batch_size) if poll else 0

    def has_few(self) -> bool:
        return self._events.has_few

    def run_few(self, batch_size: int) -> None:
        self._route_hinted(self._events.take_few(batch_size), batch_size)

    def _route_hinted(self, ids: Sequence[int], batch_size: int) -> int:
        if not ids:
            return 0
        routed, left = self._router.route_hinted(ids, batch_size)
        if left:
            self._events.add(left)
        return routed

    def _poll(self, batch_size: int) -> int:
        limit = self._polled.limit(batch_size)
        found = self._polled.run(batch_size, self._router.route)
        if found >= limit:
            self._poll_soon.set()
            self._hinted.run(batch_size, lambda limit: self._route_hinted(self._router.others(limit), batch_size))
        self.between()
        return found

    def _remove_routed(self, batch_size: int) -> None:
        left = len(self._router.routed)  # not those that are routed in between
        while left > 0:
            left -= self._removed.run(batch_size, self._router.remove_routed)
            self.between()

    def conditions(self) -> Sequence[Condition]:
        return [WAITING]

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        self._events.add(ids if topic == "events" else ())

    def hints_in(self) -> float:
        return 0.0 if self._events or self._poll_soon else math.inf

    def pending(self) -> str:
        count = len(self._router.routed)
        return f"{count} routed {'event' if count == 1 else 'events'} in the inbox" if count else ""

    def idle_for(self) -> float:
        return self._router.routed.idle_for()

    def finish(self, batch_size: int) -> None:
        self._remove_routed(batch_size)


_events = CompiledSelect(
    lambda ids: Event.objects.filter(id__in=ids).values_list("id", "uid", "event_type", "correlation_id")
)


def _log_routed(created: Sequence[CreatedSaga]) -> None:
    """Each saga once, by the router that has created it."""
    if not created or not enabled(Log.EVENT_ROUTED):
        return
    events = {row[0]: row[1:] for row in _events(ids=list({saga.key.event_id for saga in created}))}
    for saga in created:
        uid, _, correlation_id = events[saga.key.event_id]
        correlation_ids.remember(saga.id, correlation_id)
        log(
            Log.EVENT_ROUTED,
            correlation_id=correlation_id,
            saga_id=saga.id,
            event_uid=str(uid),
            subscription_id=saga.key.subscription_id,
            delivery_status=PENDING,
        )


def _log_unmatched(event_ids: Collection[int]) -> None:
    """Each event once, by the router that has removed it from the inbox."""
    if not event_ids or not enabled(Log.EVENT_UNMATCHED):
        return
    for _, uid, event_type, correlation_id in _events(ids=list(event_ids)):
        log(
            Log.EVENT_UNMATCHED,
            event_uid=str(uid),
            event_type=event_type,
            correlation_id=correlation_id,
            delivery_status="Unmatched",
        )
