"""Requests by people and what they have changed agree."""

from __future__ import annotations

import json
from datetime import datetime

from django.db import connection

from webhookhub.integrity.check import Bounds, Found, FunctionCheck, RowCheck, Violation
from webhookhub.integrity.tables import LETTERS, REQUESTS, SAGAS

# One statement, because a request and its deliveries change in one transaction.
COUNTS = """
    SELECT q.id, q.changed, COALESCE(done.abandoned, 0)
    FROM delivery_requests q LEFT JOIN (
        SELECT s.abandoned_by_id AS request_id, COUNT(*) AS abandoned
        FROM dead_letters d JOIN webhook_delivery_sagas s ON s.id = d.saga_id
        WHERE d.final_error_code = 'abandoned' AND s.status = 'DeadLettered'
        GROUP BY s.abandoned_by_id
    ) done ON done.request_id = q.id
    WHERE q.kind = 'abandon'
"""


def wrong_counts(bounds: Bounds) -> Found:
    with connection.cursor() as cursor:
        cursor.execute(COUNTS)
        rows = cursor.fetchall()
    return len(rows), [
        Violation(REQUESTS.name, pk, f"has counted {counted} abandoned deliveries; there are {abandoned}")
        for pk, counted, abandoned in rows
        if counted != abandoned
    ]


def unreadable_conditions(bounds: Bounds) -> Found:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, conditions FROM delivery_requests WHERE saga_id IS NULL ORDER BY id")
        rows = cursor.fetchall()
    return len(rows), [
        Violation(REQUESTS.name, pk, "was not applied: its conditions cannot be read")
        for pk, text in rows
        if not _are_readable(text)
    ]


def _are_readable(text: str) -> bool:
    try:
        conditions = json.loads(text)
        return bool(conditions) and all(CONDITIONS[name](value) for name, value in conditions.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_time(value: str) -> bool:
    return datetime.fromisoformat(value).tzinfo is not None


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(pk) is int for pk in value)


CONDITIONS = {
    "subscription_ids": _are_numbers,
    "status": _is_text,
    "event_type": _is_text,
    "source": _is_text,
    "since": _is_time,
    "until": _is_time,
}


CHECKS = (
    RowCheck(
        name="abandoned",
        invariant="A dead letter with the code `abandoned` belongs to a saga that a request has abandoned.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.saga_id
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = d.saga_id
            WHERE {in_batch} AND d.final_error_code = 'abandoned' AND s.abandoned_by_id IS NULL
        """,
        message="of saga {saga_id}, abandoned without a request",
    ),
    RowCheck(
        name="abandoned-by",
        invariant="A saga is abandoned by a request that covers it, and has ended when the request is applied; "
        "without a request no saga ends with the code `abandoned`.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.status, COALESCE(s.abandoned_by_id, 0) AS abandoned_by_id
            FROM {table} LEFT JOIN delivery_requests q {request_by_id} ON q.id = s.abandoned_by_id
            WHERE {in_batch} AND (s.abandoned_by_id IS NULL AND s.final_error_code = 'abandoned'
                OR s.abandoned_by_id IS NOT NULL AND (q.id IS NULL OR q.kind <> 'abandon' OR s.id > q.max_saga_id
                    OR COALESCE(q.saga_id, s.id) <> s.id
                    OR q.applied_at IS NOT NULL AND s.status NOT IN ('Completed', 'DeadLettered')))
        """,
        message="{status}, abandoned by request {abandoned_by_id}, which does not fit",
    ),
    RowCheck(
        name="requests",
        invariant="A request is applied soon, and then has its time and nothing left to do.",
        table=REQUESTS,
        # Deliveries in progress keep a request open, but each pass over them is made soon.
        sql="""
            SELECT q.id, q.kind, q.requested_by
            FROM {table}
            WHERE {in_batch} AND (q.due_at < %(before)s OR (q.due_at IS NULL) <> (q.applied_at IS NOT NULL))
        """,
        message="{kind}, requested by {requested_by!r}, is not applied",
    ),
    RowCheck(
        name="sent-again",
        invariant="A request that has sent a delivery again has created its next generation.",
        table=REQUESTS,
        sql="""
            SELECT q.id, q.saga_id
            FROM {table} LEFT JOIN webhook_delivery_sagas p {saga_by_id} ON p.id = q.saga_id
            LEFT JOIN webhook_delivery_sagas n {saga_by_event}
                ON n.event_id = p.event_id AND n.subscription_id = p.subscription_id
                AND n.generation = p.generation + 1
            WHERE {in_batch} AND q.kind = 'send_again' AND q.changed <> 0 AND n.id IS NULL
        """,
        message="no delivery follows saga {saga_id}",
    ),
    FunctionCheck(
        name="request-conditions",
        invariant="A request without a delivery has conditions that select some.",
        find=unreadable_conditions,
    ),
    FunctionCheck(
        name="request-counts",
        invariant="A request has counted the deliveries that it has abandoned.",
        find=wrong_counts,
    ),
)
