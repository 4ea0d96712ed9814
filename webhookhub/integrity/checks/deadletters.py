"""Dead letters, their sagas and their requeues agree."""

from __future__ import annotations

from django.db import connection

from webhookhub.db import vendors
from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.tables import LETTERS, REQUEUES, SAGAS

CHECKS = (
    RowCheck(
        name="dead-lettered",
        invariant="A DeadLettered saga has a dead letter.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.event_id
            FROM {table} LEFT JOIN dead_letters d {letter_by_saga} ON d.saga_id = s.id
            WHERE {in_batch} AND s.status = 'DeadLettered' AND d.id IS NULL
        """,
        message="DeadLettered, without a dead letter of event {event_id}",
    ),
    RowCheck(
        name="dead-letters",
        invariant="A dead letter's saga is DeadLettered, or about to be.",
        table=LETTERS,
        # The dead letter is written before the saga: in between, the saga is InProgress, or waits and is abandoned.
        sql="""
            SELECT d.id, d.saga_id, s.status
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = d.saga_id
            WHERE {in_batch} AND s.status <> 'DeadLettered'
                AND (d.failed_at < %(before)s OR s.status = 'Completed'
                    OR s.status <> 'InProgress' AND s.abandoned_by_id IS NULL)
        """,
        message="of saga {saga_id}, which is {status}",
    ),
    RowCheck(
        name="one-dead-letter",
        invariant="A saga has one dead letter.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.saga_id, o.id AS other
            FROM {table} {join} dead_letters o {letter_by_saga} ON o.saga_id = d.saga_id AND o.id < d.id
            WHERE {in_batch}
        """,
        message="of saga {saga_id}, like dead letter {other}",
    ),
    RowCheck(
        name="dead-letter-facts",
        invariant="A dead letter has the event and subscription of its saga, and the error code of the last attempt "
        "or `abandoned`.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.saga_id
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = d.saga_id
            LEFT JOIN webhook_delivery_jobs j {job_by_saga} ON j.saga_id = s.id AND j.attempt_no = s.attempt_count
            WHERE {in_batch} AND (d.event_id <> s.event_id OR d.subscription_id <> s.subscription_id
                OR s.status = 'DeadLettered' AND (s.final_error_code IS NULL
                    OR d.final_error_code <> s.final_error_code
                    OR d.final_error_code <> j.error_code AND d.final_error_code <> 'abandoned'))
        """,
        message="event, subscription or error code differ from saga {saga_id} and its last attempt",
    ),
    RowCheck(
        name="dead-letter-payloads",
        invariant="A dead letter's payload is the event's, byte for byte.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.saga_id, d.event_id
            FROM {table} {join} events e {event_by_id} ON e.id = d.event_id
            WHERE {in_batch} AND NOT ({same_payload})
        """,
        message="of saga {saga_id}, payload differs from event {event_id}",
        terms=lambda bounds: {"same_payload": vendors.same_bytes(connection, "d.payload_snapshot", "e.payload")},
    ),
    RowCheck(
        name="requeues",
        invariant="A recorded requeue has created its saga.",
        table=REQUEUES,
        sql="""
            SELECT r.id, r.dead_letter_id, r.requested_by, r.requested_at
            FROM {table} {join} dead_letters d {letter_by_id} ON d.id = r.dead_letter_id
            {join} webhook_delivery_sagas s {saga_by_id} ON s.id = d.saga_id
            LEFT JOIN webhook_delivery_sagas n {saga_by_event}
                ON n.event_id = s.event_id AND n.subscription_id = s.subscription_id AND n.generation = s.generation + 1
            WHERE {in_batch} AND n.id IS NULL
        """,
        message="dead letter {dead_letter_id}, requeued by {requested_by!r} at {requested_at}, has no new saga",
    ),
)
