"""Nothing of one customer is delivered to another."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.tables import EVENTS, INBOX, LETTERS, SAGAS, SUBSCRIPTIONS

CHECKS = (
    RowCheck(
        name="customers",
        invariant="A saga has the customer of its event, and its subscription has the same customer or none.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.customer_key AS own, e.customer_key AS of_event, u.customer_key AS of_subscription
            FROM {table} {join} events e {event_by_id} ON e.id = s.event_id
            {join} subscriptions u {subscription_by_id} ON u.id = s.subscription_id
            WHERE {in_batch} AND (s.customer_key <> e.customer_key OR u.customer_key NOT IN ('', e.customer_key))
        """,
        message="customer {own!r}, its event: {of_event!r}, its subscription: {of_subscription!r}",
    ),
    RowCheck(
        name="dead-letter-customers",
        invariant="A dead letter has the customer of its event.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.customer_key AS own, e.customer_key AS of_event
            FROM {table} {join} events e {event_by_id} ON e.id = d.event_id
            WHERE {in_batch} AND d.customer_key <> e.customer_key
        """,
        message="customer {own!r}, its event: {of_event!r}",
    ),
    RowCheck(
        name="inbox-customers",
        invariant="An event in the inbox has its customer there, too.",
        table=INBOX,
        sql="""
            SELECT i.event_id, i.customer_key AS own, e.customer_key AS of_event
            FROM {table} {join} events e {event_by_id} ON e.id = i.event_id
            WHERE {in_batch} AND i.customer_key <> e.customer_key
        """,
        message="customer {own!r}, its event: {of_event!r}",
    ),
    RowCheck(
        name="subscription-customers",
        invariant="A subscription's customer exists, and both are disabled or not.",
        table=SUBSCRIPTIONS,
        sql="""
            SELECT u.id, u.customer_key, COALESCE(u.customer_disabled_at, 'not') AS own,
                CASE WHEN c.id IS NULL THEN 'missing' ELSE COALESCE(c.disabled_at, 'not') END AS of_customer
            FROM {table} LEFT JOIN customers c {customer_by_key} ON c.customer_key = u.customer_key
            WHERE {in_batch} AND (u.customer_key <> '' AND c.id IS NULL
                OR (u.customer_disabled_at IS NULL) <> (c.disabled_at IS NULL))
        """,
        message="customer {customer_key!r}, disabled: {own}, the customer: {of_customer}",
    ),
    RowCheck(
        name="event-customers",
        invariant="An event's customer exists.",
        table=EVENTS,
        sql="""
            SELECT e.id, e.customer_key
            FROM {table} LEFT JOIN customers c {customer_by_key} ON c.customer_key = e.customer_key
            WHERE {in_batch} AND e.customer_key <> '' AND c.id IS NULL
        """,
        message="there is no customer {customer_key!r}",
        # A program that inserts events by SQL may name a customer before it is created.
        is_warning=True,
    ),
)
