"""The oldest work that is ready and that no loop has taken yet.

Each kind of work is found at the head of an index, without locks: also if its row is locked by a process that has
vanished, which the loops skip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Max

from events.models import Event, RoutingInbox
from jobs.models import Job
from jobs.states import FINISHED
from sagas.models import Saga
from sagas.parking import oldest_parked, parked_subscriptions
from sagas.transitions import WAITING
from subscriptions.models import Subscription
from webhookhub.conf import hub
from webhookhub.db import clock
from workflows.models import TrackedType, WorkflowInbox

from .models import MINUTE, Period

EVENTS = "events"
DELIVERIES = "deliveries"
ATTEMPTS = "attempts"
PARKED = "parked_deliveries"
LEASES = "expired_leases"
RESULTS = "results"
WORKFLOW_EVENTS = "workflow_events"

# Deliveries to paused subscriptions are not ready; the orchestrator parks them.
HEAD = 100


class Work(NamedTuple):
    """The row in `table` with the primary key `pk`, ready since `since`."""

    table: str
    pk: int
    since: datetime


def oldest(now: datetime) -> dict[str, Work | None]:
    """The oldest ready work of each kind; None if there is none."""
    return {
        EVENTS: _oldest_event(),
        DELIVERIES: _earliest([_oldest_delivery(status, now) for status in WAITING]),
        ATTEMPTS: _first(Job.objects.ready(now).values_list("id", "lease_until")),
        PARKED: _oldest_parked(),
        LEASES: _first(Job.objects.expired(now).values_list("id", "lease_until")),
        RESULTS: _earliest(
            [_first(Job.objects.unsettled(status).values_list("id", "finished_at")) for status in FINISHED]
        ),
        WORKFLOW_EVENTS: _oldest_workflow_event(),
    }


def age(work: Work | None, now: datetime) -> timedelta:
    return max(timedelta(0), now - work.since) if work else timedelta(0)


def stuck(now: datetime, limit: timedelta) -> Mapping[str, Work]:
    """The kinds of work whose oldest row has been ready for longer than `limit`."""
    return {kind: work for kind, work in oldest(now).items() if work and age(work, now) > limit}


def _oldest_event() -> Work | None:
    first = RoutingInbox.objects.order_by("event_id").values_list("event_id", flat=True).first()
    created_at = _created_at(first)
    return Work(RoutingInbox._meta.db_table, first, created_at) if first and created_at else None


def _oldest_delivery(status: str, now: datetime) -> Work | None:
    due = list(Saga.objects.due(status, now).values_list("id", "next_attempt_at", "subscription_id")[:HEAD])
    if not due:
        return None
    wanted = {subscription_id for _, _, subscription_id in due}
    routable = set(Subscription.objects.routable().filter(id__in=wanted).values_list("id", flat=True))
    ready = (Work(Saga._meta.db_table, pk, since) for pk, since, subscription in due if subscription in routable)
    return next(ready, None)


def _oldest_parked() -> Work | None:
    """The oldest parked delivery of an endpoint that gets no attempts, although it may.

    Since its parking, the last attempt of its endpoint, or the last change of its subscription: which is the latest.
    """
    parked = Subscription.objects.routable().filter(id__in=parked_subscriptions())
    endpoints = dict(parked.values_list("id", "endpoint_id"))
    if not endpoints:
        return None
    siblings = Subscription.objects.filter(endpoint_id__in=endpoints.values())
    sharing = dict(siblings.values_list("id", "endpoint_id"))
    busy = {sharing.get(pk) for pk in Job.objects.open_by_subscription()}
    attempted = _last_attempts(sharing)
    oldest = {pk for pk, *_ in oldest_parked({pk: 1 for pk, endpoint in endpoints.items() if endpoint not in busy})}
    rows = Saga.objects.filter(id__in=oldest).values_list(
        "id", "updated_at", "subscription__updated_at", "subscription__endpoint_id"
    )
    # A failing endpoint is probed from time to time.
    return _earliest(
        [
            Work(Saga._meta.db_table, pk, max(*times, attempted.get(endpoint, times[0])) + hub().probe_interval)
            for pk, *times, endpoint in rows
        ]
    )


def _last_attempts(endpoints: Mapping[int, int | None]) -> dict[int | None, datetime]:
    """The end of the last minute in which an attempt of each endpoint has finished; `endpoints` are by subscription."""
    # Not those of the future, which another program has written by SQL: a minute after them may not exist.
    past = Period.objects.filter(period=MINUTE, subscription_id__in=endpoints, starts_at__lte=clock.now())
    minutes = past.values("subscription_id").order_by()
    last: dict[int | None, datetime] = {}
    for subscription_id, starts_at in minutes.annotate(last=Max("starts_at")).values_list("subscription_id", "last"):
        ended = starts_at + timedelta(minutes=1)
        last[endpoints[subscription_id]] = max(ended, last.get(endpoints[subscription_id], ended))
    return last


def _oldest_workflow_event() -> Work | None:
    first = WorkflowInbox.objects.order_by("event_id").values_list("event_id", flat=True).first()
    event = Event.objects.filter(id=first).values_list("created_at", "event_type").first() if first else None
    if first is None or event is None or event[0] is None:
        return None
    created_at, event_type = event
    # Events from before their type was tracked are put into the inbox later.
    tracked = TrackedType.objects.filter(event_type=event_type).values_list("tracked_since", flat=True).first()
    return Work(WorkflowInbox._meta.db_table, first, max(created_at, tracked) if tracked else created_at)


def _created_at(event_id: int | None) -> datetime | None:
    if event_id is None:
        return None
    return Event.objects.filter(id=event_id).values_list("created_at", flat=True).first()


def _first(rows: Any) -> Work | None:
    row = rows.first()
    return Work(rows.model._meta.db_table, *row) if row and row[1] else None


def _earliest(found: Sequence[Work | None]) -> Work | None:
    return min(filter(None, found), key=lambda work: work.since, default=None)
