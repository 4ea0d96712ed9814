"""Publishes the hub's own events about failing, disabled and recovered endpoints.

They are ordinary events. The external id is made of the endpoint, the beginning of its trouble and the stage, so that
publishing one again, after a crash or beside another process, changes nothing. A trouble has at most one event per
stage: the failed delivery of such an event causes no further event, and there is no loop.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F

from subscriptions.health import DISABLED, Health, note_announced
from subscriptions.models import EndpointHealth, Subscription
from webhookhub.auditlog.record import url_without_query

from .intake import HUB_SOURCE, NewEvent, publish_many

ENDPOINT_FAILING = "hub.endpoint.failing"
ENDPOINT_DISABLED = "hub.endpoint.disabled"
ENDPOINT_RECOVERED = "hub.endpoint.recovered"
# An endpoint may have thousands of subscriptions.
MAX_SUBSCRIPTIONS = 100


def announce(batch_size: int) -> int:
    """Publish what has changed about one batch of endpoints; returns how many."""
    rows = list(EndpointHealth.objects.exclude(stage=F("announced")).order_by("id")[:batch_size])
    # A conflict is an event that was published before, when the last error was another one.
    publish_many([_event(row) for row in rows], by_hub=True)
    for row in rows:
        note_announced(row.pk, Health(*(getattr(row, name) for name in Health._fields)))
    return len(rows)


def _event(row: EndpointHealth) -> NewEvent:
    trouble = f"endpoint/{row.pk}/{row.failing_since.isoformat()}"
    return NewEvent(
        event_type=_event_type(row),
        payload=_payload(row),
        source=HUB_SOURCE,
        external_id=f"{trouble}/{row.stage or 'recovered'}",
        # The same for all events about one trouble.
        correlation_id=trouble,
    )


def _event_type(row: EndpointHealth) -> str:
    if not row.stage:
        return ENDPOINT_RECOVERED
    return ENDPOINT_DISABLED if row.stage == DISABLED else ENDPOINT_FAILING


def _payload(row: EndpointHealth) -> dict[str, Any]:
    subscriptions = Subscription.objects.filter(endpoint=row.endpoint_id or 0, deleted_at__isnull=True).order_by("id")
    found = list(subscriptions.values_list("id", "event_type")[:MAX_SUBSCRIPTIONS])
    payload = {
        "url": url_without_query(row.callback_url),
        "subscription_ids": [pk for pk, _ in found],
        "event_types": [event_type for _, event_type in found],
        "failing_since": row.failing_since.isoformat(),
        "last_error_code": row.last_error_code,
    }
    if not row.stage:
        recovered_at = row.recovered_at and row.recovered_at.isoformat()
        return {**payload, "stage": "recovered", "recovered_at": recovered_at, "recovered_by": row.recovered_by}
    if row.stage == DISABLED:
        disabled_at = row.disabled_at and row.disabled_at.isoformat()
        return {**payload, "stage": "disabled", "disabled_at": disabled_at, "disabled_reason": row.disabled_reason}
    return {**payload, "stage": f"{row.stage}%"}
