"""Routes events from the inbox: creates one saga for each matching subscription."""

from __future__ import annotations

from collections.abc import Sequence

from sagas.create import NewSaga, create_sagas, routed_log_fields
from sagas.policy import RetryPolicy
from subscriptions.cache import RoutableSubscription, SubscriptionCache
from webhookhub.db.bulk import delete_each
from webhookhub.db.compiled import CompiledSelect, Limit
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, enabled, log
from webhookhub.stats import counters

from .models import Event, RoutingInbox

# Limits the sagas of one transaction, so that an event type with very many subscriptions does not hold locks for long.
MAX_NEW_SAGAS = 5000

_waiting = CompiledSelect(
    lambda limit: (
        RoutingInbox.objects.select_for_update(skip_locked=True)
        .order_by("event_id")
        .values_list("event_id", "event_type")[:limit]
    )
)


class Router:
    def __init__(self) -> None:
        self._subscriptions = SubscriptionCache()

    def route(self, batch_size: int) -> int:
        """Route one batch; returns the number of events.

        The transaction locks the inbox rows against other routers, and counts them when it deletes them. After a
        rollback, the next run creates the same sagas under the same keys.
        """
        routed = in_transaction(lambda: self._route(batch_size))
        _log(routed)
        return len(routed)

    def _route(self, batch_size: int) -> list[RoutingInbox]:
        waiting = [RoutingInbox(event_id, event_type) for event_id, event_type in _waiting(limit=Limit(batch_size))]
        if not waiting:
            return []
        # Read after the events: a subscription that is older than an event must not be missed.
        taken, new = _within_bounds(waiting, self._subscriptions.by_event_type())
        create_sagas(new, batch_size)
        # Row by row: a range delete would wait for producers with open transactions, who lock rows of this table.
        delete_each(RoutingInbox, [row.event_id for row in taken])
        matched = len({saga.event_id for saga in new})
        counters.add(
            {(counters.EVENTS_ROUTED, "matched"): matched, (counters.EVENTS_ROUTED, "unmatched"): len(taken) - matched}
        )
        return taken


def _within_bounds(
    inbox: Sequence[RoutingInbox], by_type: dict[str, list[RoutableSubscription]]
) -> tuple[list[RoutingInbox], list[NewSaga]]:
    """The first events whose sagas fit into one transaction, at least one, and their sagas."""
    taken: list[RoutingInbox] = []
    new: list[NewSaga] = []
    for row in inbox:
        matching = by_type.get(row.event_type, [])
        if taken and len(new) + len(matching) > MAX_NEW_SAGAS:
            break
        taken.append(row)
        new += [NewSaga(row.event_id, subscription.id, 0, policy(subscription)) for subscription in matching]
    return taken, new


def policy(subscription: RoutableSubscription) -> RetryPolicy:
    return RetryPolicy.with_overrides(subscription.max_retry_limit, subscription.base_delay, subscription.retry_delays)


def _log(routed: Sequence[RoutingInbox]) -> None:
    if not routed or not enabled(Log.EVENT_ROUTED):
        return
    unmatched = {row.event_id for row in routed}
    for event_id, saga in routed_log_fields(unmatched):
        unmatched.discard(event_id)
        log(Log.EVENT_ROUTED, **saga)
    for uid, event_type, correlation_id in Event.objects.filter(id__in=unmatched).values_list(
        "uid", "event_type", "correlation_id"
    ):
        log(
            Log.EVENT_UNMATCHED,
            event_uid=str(uid),
            event_type=event_type,
            correlation_id=correlation_id,
            delivery_status="Unmatched",
        )
