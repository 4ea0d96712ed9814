"""Delivers past events to a subscription that is new or was disabled.

It creates the sagas that the router would have created, under the same key (generation 0): existing deliveries are left
alone, repeating it adds nothing, and an event that the router handles at the same time gets one saga.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.utils.translation import gettext as _

from sagas.create import NewSaga, create_sagas, routed_events
from subscriptions import cache, patterns
from subscriptions.cache import OfSubscription
from subscriptions.matching import NO_CUSTOMER, RoutableSubscription
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import shared_lock
from webhookhub.db.retry import in_transaction

from . import labels
from .models import Event, RoutingInbox
from .routing import policy

MAX_EVENTS = 10_000


class NotRoutable(Exception):
    """The subscription is disabled, not verified, or does not exist. `created` deliveries were created before."""

    def __init__(self, subscription_id: int, created: int = 0) -> None:
        message = _("subscription %(id)s gets no deliveries; activate and verify it first")
        super().__init__(message % {"id": subscription_id})
        self.created = created


class Position(NamedTuple):
    """The last event examined, in order of time."""

    created_at: datetime
    id: int


@dataclass(frozen=True)
class Backfill:
    """`after` is where to continue; None when all events up to `until` were examined.

    `recorded` is True when the audit log has an entry.
    """

    examined: int
    created: int
    until: datetime
    after: Position | None
    recorded: bool


def backfill(
    subscription_id: int,
    since: datetime,
    until: datetime | None = None,
    *,
    after: Position | None = None,
    limit: int | None = MAX_EVENTS,
    recorded: bool = False,
    progress: Callable[[Position], None] = lambda position: None,
) -> Backfill:
    """Create the missing sagas for at most `limit` events from `since` to `until` (default: now), the oldest first.

    Writes an audit log entry before the first saga is created, unless `recorded` says that an earlier part of the same
    backfill has done so.
    """
    until = until or clock.now()
    details = {"since": since, "until": until, **({"after_event": after.id} if after else {})}
    examined = created = 0
    while limit is None or examined < limit:
        # Checked for each batch: the subscription may be disabled in the meantime.
        routable = cache.routable(subscription_id)
        if routable is None:
            raise NotRoutable(subscription_id, created)
        size = hub().batch_size if limit is None else min(hub().batch_size, limit - examined)
        batch = _events(routable, since, until, after, size)
        ids = [position.id for position in batch]
        missing = _accepted(sorted(set(ids) - routed_events(subscription_id, ids)), routable.subscription)
        if missing and not recorded:
            record(actions.BACKFILL, kind="subscription", id=subscription_id, details=details)
            recorded = True
        customers = {position.id: customer for position, customer in batch.items()}
        born, endpoint = policy(routable.subscription), routable.subscription.endpoint_id
        new = [NewSaga(pk, subscription_id, 0, born, customers[pk], endpoint) for pk in missing]
        # Sagas that the router creates at the same time are not counted here.
        created += in_transaction(lambda new=new, size=size: _create(new, size))  # type: ignore[misc]
        examined += len(batch)
        if len(batch) < size:
            return Backfill(examined, created, until, None, recorded)
        after = list(batch)[-1]
        progress(after)
    return Backfill(examined, created, until, after, recorded)


def _accepted(event_ids: list[int], subscription: RoutableSubscription) -> list[int]:
    """Those of these events that the subscription's filter accepts."""
    if subscription.label_filter is None or not event_ids:
        return event_ids
    rows = Event.objects.filter(id__in=event_ids).order_by("id").values_list("id", "labels")
    return [pk for pk, stored in rows if subscription.label_filter.accepts(labels.decode(stored))]


def _create(new: Sequence[NewSaga], size: int) -> int:
    # Locked until the commit: the router counts the sagas of an event when it removes the event from its inbox.
    waiting = shared_lock(RoutingInbox, [saga.event_id for saga in new])
    return len(create_sagas(new, size, counted_later=waiting))


def _events(
    of: OfSubscription, since: datetime, until: datetime, after: Position | None, limit: int
) -> dict[Position, str]:
    """The next events that the subscription gets, in order, and the customer of each."""
    rows = Event.objects.filter(created_at__gte=since, created_at__lte=until, **patterns.conditions(of.event_type))
    if of.customer_key != NO_CUSTOMER:
        rows = rows.filter(customer_key=of.customer_key)
    if after is not None:
        rows = rows.filter(created_at__gte=after.created_at).exclude(created_at=after.created_at, id__lte=after.id)
    rows = rows.order_by("created_at", "id")
    found = rows.values_list("created_at", "id", "customer_key")[:limit]
    return {Position(created_at, pk): customer_key for created_at, pk, customer_key in found}
