"""Past events for a subscription that is new or was off: the sagas that routing would have made, made now.

By routing's own key (generation 0): what was delivered or is under way is left alone, a repetition adds nothing, and
an event that the router takes at the same moment gets one saga from the two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q
from django.utils.translation import gettext as _

from sagas import create
from sagas.create import NewSaga
from subscriptions import cache
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.conf import hub
from webhookhub.db import clock

from .models import Event
from .routing import policy

MOST_AT_ONCE = 10_000


class NotRoutable(Exception):
    """The subscription is switched off, not verified, or not there: it would not be delivered to."""

    def __init__(self, subscription_id: int) -> None:
        super().__init__(
            _(
                "subscription %(number)s gets no deliveries: it must be active and verified; "
                "switch it on and verify it first"
            )
            % {"number": subscription_id}
        )


class Position(NamedTuple):
    """Where the walk along the events of a type, in the order of their time, has come to."""

    created_at: datetime
    id: int


@dataclass(frozen=True)
class Backfill:
    """`after` is where to go on; None when all events up to `until` have been looked at.

    `told` says that the trail knows of it.
    """

    examined: int
    created: int
    until: datetime
    after: Position | None
    told: bool


def backfill(
    subscription_id: int,
    since: datetime,
    until: datetime | None = None,
    *,
    after: Position | None = None,
    limit: int = MOST_AT_ONCE,
    told: bool = False,
    progress: Callable[[Position], None] = lambda position: None,
) -> Backfill:
    """Make the missing sagas for at most `limit` events from `since` to `until` (now), the oldest first.

    The trail is told before the first is made, and of none if none is missing. `told` is for whoever goes on with what
    they have begun: the trail knows of it already.
    """
    until = until or clock.now()
    behind = {"after_event": after.id} if after else {}
    examined = created = 0
    while examined < limit:
        # Asked for each batch: it may be switched off in the meantime.
        found = cache.routable(subscription_id)
        if found is None:
            raise NotRoutable(subscription_id)
        event_type, subscription = found
        size = min(hub().batch_size, limit - examined)
        batch = _events(event_type, since, until, after, size)
        ids = [position.id for position in batch]
        missing = sorted(set(ids) - create.routed_to(subscription_id, ids))
        if missing and not told:
            record(
                actions.BACKFILL,
                kind="subscription",
                id=subscription_id,
                details={"since": since, "until": until, **behind},
            )
            told = True
        # Others, such as the router, may make some of them at this moment: those are not counted here.
        created += len(create.insert([NewSaga(id, subscription_id, 0, policy(subscription)) for id in missing], size))
        examined += len(batch)
        if len(batch) < size:
            return Backfill(examined, created, until, None, told)
        after = batch[-1]
        progress(after)
    return Backfill(examined, created, until, after, told)


def _events(event_type: str, since: datetime, until: datetime, after: Position | None, most: int) -> list[Position]:
    rows = Event.objects.filter(event_type=event_type, created_at__gte=since, created_at__lte=until)
    if after is not None:
        rows = rows.filter(created_at__gte=after.created_at).exclude(
            Q(created_at=after.created_at) & Q(id__lte=after.id)
        )
    rows = rows.order_by("created_at", "id")
    return [Position(*row) for row in rows.values_list("created_at", "id")[:most]]
