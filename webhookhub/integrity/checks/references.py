"""Referenced rows exist. The database has no foreign key constraints: they would lock the referenced row."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.tables import JOBS, LETTERS, REQUEUES, SAGAS

CHECKS = (
    RowCheck(
        name="saga-references",
        invariant="A saga's event and subscription exist.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.event_id, s.subscription_id
            FROM {table} LEFT JOIN events e {event_by_id} ON e.id = s.event_id
            LEFT JOIN subscriptions u {subscription_by_id} ON u.id = s.subscription_id
            WHERE {in_batch} AND (e.id IS NULL OR u.id IS NULL)
        """,
        message="there is no event {event_id} or no subscription {subscription_id}",
    ),
    RowCheck(
        name="job-references",
        invariant="A job's saga exists.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id
            FROM {table} LEFT JOIN webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {in_batch} AND s.id IS NULL
        """,
        message="there is no saga {saga_id}",
    ),
    RowCheck(
        name="dead-letter-references",
        invariant="A dead letter's saga, event and subscription exist.",
        table=LETTERS,
        sql="""
            SELECT d.id, d.saga_id, d.event_id, d.subscription_id
            FROM {table} LEFT JOIN webhook_delivery_sagas s {saga_by_id} ON s.id = d.saga_id
            LEFT JOIN events e {event_by_id} ON e.id = d.event_id
            LEFT JOIN subscriptions u {subscription_by_id} ON u.id = d.subscription_id
            WHERE {in_batch} AND (s.id IS NULL OR e.id IS NULL OR u.id IS NULL)
        """,
        message="there is no saga {saga_id}, no event {event_id} or no subscription {subscription_id}",
    ),
    RowCheck(
        name="requeue-references",
        invariant="A recorded requeue's dead letter exists.",
        table=REQUEUES,
        sql="""
            SELECT r.id, r.dead_letter_id
            FROM {table} LEFT JOIN dead_letters d {letter_by_id} ON d.id = r.dead_letter_id
            WHERE {in_batch} AND d.id IS NULL
        """,
        message="there is no dead letter {dead_letter_id}",
    ),
)
