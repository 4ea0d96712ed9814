"""Every event is routed to one delivery per subscription and generation."""

from __future__ import annotations

from typing import Any

from django.db import connection

from events import labels
from subscriptions import filters
from webhookhub.db import vendors
from webhookhub.integrity.check import Bounds, RowCheck
from webhookhub.integrity.tables import EVENTS, INBOX, SAGAS, SUBSCRIPTIONS


def _well_before(bounds: Bounds) -> dict[str, str]:
    return {"well_before": vendors.seconds_before(connection, "e.created_at", int(bounds.grace.total_seconds()))}


def _is_accepted(row: dict[str, Any]) -> bool:
    """Whether the filter of the row's subscription accepts the row's event."""
    label_filter = None if row["label_filter"] is None else filters.stored(row["label_filter"])
    return label_filter is None or label_filter.accepts(labels.decode(row["labels"]))


CHECKS = (
    RowCheck(
        name="inbox",
        invariant="An event leaves the inbox soon after it was published; the inbox contains only ids of events.",
        table=INBOX,
        sql="""
            SELECT i.event_id, COALESCE(e.created_at, 'never') AS created_at
            FROM {table} LEFT JOIN events e {event_by_id} ON e.id = i.event_id
            WHERE {in_batch} AND (e.id IS NULL OR e.created_at < %(before)s)
        """,
        message="not routed; published: {created_at}",
    ),
    RowCheck(
        name="deliveries",
        invariant=(
            "A routed event has a saga for each subscription to exactly its type, of its customer or for all, "
            "that was active, verified and not disabled before it, whose filter accepts it, and that has not changed "
            "since; or for another subscription of the same endpoint."
        ),
        table=EVENTS,
        # It is unknown what the router saw of a subscription that changed later. Well before, because the router's
        # cache may be some seconds old.
        sql="""
            SELECT e.id, u.id AS subscription_id, e.labels, u.label_filter
            FROM {table} {join} subscriptions u {subscription_by_type} ON u.event_type = e.event_type
            LEFT JOIN webhook_delivery_sagas s {saga_by_event}
                ON s.event_id = e.id AND s.generation = 0
                AND (s.subscription_id = u.id OR s.endpoint_id = u.endpoint_id)
            LEFT JOIN routing_inbox i {inbox_by_event} ON i.event_id = e.id
            WHERE {in_batch} AND e.created_at < %(before)s AND u.active = 1 AND u.verified = 1
                AND u.disabled_at IS NULL AND u.customer_disabled_at IS NULL
                AND u.customer_key IN ('', e.customer_key)
                AND u.updated_at < {well_before} AND u.verification_at < {well_before}
                AND s.id IS NULL AND i.event_id IS NULL
        """,
        message="no saga for subscription {subscription_id}",
        terms=_well_before,
        violates=_is_accepted,
    ),
    RowCheck(
        name="filtered",
        invariant="A routed saga is of an event that its subscription's filter accepts, unless the subscription has "
        "changed since.",
        table=SAGAS,
        # The routed one only: later generations follow from it. Well before, as above.
        sql="""
            SELECT s.id, s.event_id, s.subscription_id, e.labels, u.label_filter
            FROM {table} {join} subscriptions u {subscription_by_id} ON u.id = s.subscription_id
            {join} events e {event_by_id} ON e.id = s.event_id
            WHERE {in_batch} AND s.generation = 0 AND u.label_filter IS NOT NULL AND u.updated_at < {well_before}
        """,
        message="the filter of subscription {subscription_id} does not accept event {event_id}",
        terms=_well_before,
        violates=lambda row: not _is_accepted(row),
    ),
    RowCheck(
        name="disabled",
        invariant="A verified subscription is disabled exactly while its endpoint is.",
        table=SUBSCRIPTIONS,
        # One that is not verified gets no deliveries, and its verification enables the endpoint.
        sql="""
            SELECT u.id, COALESCE(u.disabled_at, 'not') AS own, COALESCE(h.disabled_at, 'not') AS of_endpoint
            FROM {table} LEFT JOIN endpoint_health h {health_by_endpoint} ON h.endpoint_id = u.endpoint_id
            WHERE {in_batch} AND u.verified = 1 AND (u.disabled_at IS NULL) <> (h.disabled_at IS NULL)
        """,
        message="disabled: {own}, its endpoint: {of_endpoint}",
    ),
    RowCheck(
        name="one-saga",
        invariant="There is one saga per event, subscription and generation.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.event_id, s.subscription_id, s.generation, o.id AS other
            FROM {table} {join} webhook_delivery_sagas o {saga_by_event}
                ON o.event_id = s.event_id AND o.subscription_id = s.subscription_id
                AND o.generation = s.generation AND o.id < s.id
            WHERE {in_batch}
        """,
        message="generation {generation} of event {event_id} to subscription {subscription_id}, like saga {other}",
    ),
    RowCheck(
        name="generations",
        invariant="Generations count from 0 without gaps. A new one follows a DeadLettered saga, "
        "or a Completed one that a person or a workflow sends again.",
        table=SAGAS,
        # + 1 and not - 1: an unsigned 0 minus 1 is an error. COUNT: a server may start an EXISTS with all facts.
        sql="""
            SELECT s.id, s.generation, COALESCE(p.status, 'missing') AS before_it
            FROM {table} LEFT JOIN webhook_delivery_sagas p {saga_by_event}
                ON p.event_id = s.event_id AND p.subscription_id = s.subscription_id
                AND p.generation + 1 = s.generation
            WHERE {in_batch} AND s.generation <> 0 AND (p.id IS NULL OR p.status <> 'DeadLettered')
                AND NOT (COALESCE(p.status, '') = 'Completed' AND 0 < (
                    SELECT COUNT(*) FROM delivery_requests q {request_by_saga}
                    WHERE q.saga_id = p.id AND q.kind = 'send_again'))
                AND NOT (COALESCE(p.status, '') = 'Completed' AND 0 < (
                    SELECT COUNT(*) FROM saga_facts f {fact_by_event}
                    {join} saga_facts r {fact_by_instance} ON r.instance_id = f.instance_id
                    WHERE f.event_id = s.event_id AND r.role = 'retried'))
        """,
        message="generation {generation}, and the previous one is {before_it}",
    ),
    RowCheck(
        name="requeued-by",
        invariant="A saga that follows a dead letter has a requeue record.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.generation, d.id AS letter
            FROM {table} {join} webhook_delivery_sagas p {saga_by_event}
                ON p.event_id = s.event_id AND p.subscription_id = s.subscription_id
                AND p.generation + 1 = s.generation
            {join} dead_letters d {letter_by_saga} ON d.saga_id = p.id
            LEFT JOIN dead_letter_requeues r {requeue_by_letter} ON r.dead_letter_id = d.id
            WHERE {in_batch} AND s.generation <> 0 AND r.id IS NULL
        """,
        message="generation {generation}, without a requeue record of dead letter {letter}",
    ),
)
