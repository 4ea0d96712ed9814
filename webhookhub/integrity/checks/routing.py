"""Every event is routed."""

from __future__ import annotations

from django.db import connection

from webhookhub.db import vendors
from webhookhub.integrity.check import Bounds, RowCheck
from webhookhub.integrity.walk import EVENTS, INBOX


def _well_before(bounds: Bounds) -> dict[str, str]:
    return {"well_before": vendors.seconds_before(connection, "e.created_at", int(bounds.grace.total_seconds()))}


CHECKS = (
    RowCheck(
        name="inbox",
        invariant="An event leaves the inbox soon after it was published; the inbox holds nothing but events.",
        table=INBOX,
        sql="""
            SELECT i.event_id, COALESCE(e.created_at, 'never') AS created_at
            FROM {walked} LEFT JOIN events e {event_by_id} ON e.id = i.event_id
            WHERE {within} AND (e.id IS NULL OR e.created_at < %(before)s)
        """,
        says="still to be routed; published: {created_at}",
    ),
    RowCheck(
        name="deliveries",
        invariant=(
            "A routed event has a saga for each subscription to its type that was open before it and has not changed "
            "since."
        ),
        table=EVENTS,
        # Of a subscription that was changed later nobody knows what the router saw. Well before, because the router's
        # view of subscriptions may be some seconds old.
        sql="""
            SELECT e.id, u.id AS subscription_id
            FROM {walked} {join} subscriptions u {subscription_by_type} ON u.event_type = e.event_type
            LEFT JOIN webhook_delivery_sagas s {saga_by_event}
                ON s.event_id = e.id AND s.subscription_id = u.id AND s.generation = 0
            LEFT JOIN routing_inbox i {inbox_by_event} ON i.event_id = e.id
            WHERE {within} AND e.created_at < %(before)s AND u.active = 1 AND u.verified = 1
                AND u.updated_at < {well_before} AND u.verification_at < {well_before}
                AND s.id IS NULL AND i.event_id IS NULL
        """,
        says="no saga for subscription {subscription_id}",
        terms=_well_before,
    ),
)
