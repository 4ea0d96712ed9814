"""Which sagas there are: one for each event, subscription and generation, one generation after the other."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.walk import SAGAS

CHECKS = (
    RowCheck(
        name="one-saga",
        invariant="An event, a subscription and a generation have one saga.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.event_id, s.subscription_id, s.generation, o.id AS other
            FROM {walked} {join} webhook_delivery_sagas o {saga_by_event}
                ON o.event_id = s.event_id AND o.subscription_id = s.subscription_id
                AND o.generation = s.generation AND o.id < s.id
            WHERE {within}
        """,
        says="generation {generation} of event {event_id} to subscription {subscription_id}, as saga {other}",
    ),
    RowCheck(
        name="generations",
        invariant="Generations count from 0 without gaps, and each begins after the one before it is DeadLettered, "
        "or Completed and delivered again for a workflow.",
        table=SAGAS,
        # Added and not subtracted: an unsigned column minus one is an error for 0. Counted, because a server may turn
        # EXISTS round and begin with all facts there are.
        sql="""
            SELECT s.id, s.generation, COALESCE(p.status, 'missing') AS before_it
            FROM {walked} LEFT JOIN webhook_delivery_sagas p {saga_by_event}
                ON p.event_id = s.event_id AND p.subscription_id = s.subscription_id
                AND p.generation + 1 = s.generation
            WHERE {within} AND s.generation <> 0 AND (p.id IS NULL OR p.status <> 'DeadLettered')
                AND NOT (COALESCE(p.status, '') = 'Completed' AND 0 < (
                    SELECT COUNT(*) FROM saga_facts f {fact_by_event}
                    {join} saga_facts r {fact_by_saga} ON r.instance_id = f.instance_id
                    WHERE f.event_id = s.event_id AND r.role = 'retried'))
        """,
        says="generation {generation}, and the one before it is {before_it}",
    ),
    RowCheck(
        name="requeued-by",
        invariant="A saga of a later generation has the record of who asked for it.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.generation, d.id AS letter
            FROM {walked} {join} webhook_delivery_sagas p {saga_by_event}
                ON p.event_id = s.event_id AND p.subscription_id = s.subscription_id
                AND p.generation + 1 = s.generation
            {join} dead_letters d {letter_by_saga} ON d.saga_id = p.id
            LEFT JOIN dead_letter_requeues r {requeue_by_letter} ON r.dead_letter_id = d.id
            WHERE {within} AND s.generation <> 0 AND r.id IS NULL
        """,
        says="generation {generation}, and nobody is recorded to have requeued dead letter {letter}",
    ),
)
