"""Workflow runs: their rows, their facts and the published events agree.

`manage.py workflows replay` checks that each row and each published event follows from the facts.
"""

from __future__ import annotations

from django.db import connection

from webhookhub.db import vendors
from webhookhub.integrity.check import Bounds, RowCheck
from webhookhub.integrity.tables import EVENTS, FACTS, INSTANCES, WORKFLOW_INBOX


def _from_the_future(bounds: Bounds) -> dict[str, str]:
    """The server's current time: events published since the check began are not from the future."""
    return {
        "well_before": vendors.seconds_before(connection, "e.created_at", int(bounds.grace.total_seconds())),
        "now": vendors.utc_now_sql(connection).replace("%", "%%"),  # a statement with parameters takes %% for %
    }


CHECKS = (
    RowCheck(
        name="workflow-inbox",
        invariant="A workflow event is processed soon after it was published; the inbox contains only ids of events.",
        table=WORKFLOW_INBOX,
        # Regardless of its lease: a tracker that fails at this event at each start renews it for ever.
        sql="""
            SELECT i.event_id, COALESCE(e.created_at, 'never') AS created_at
            FROM {table} LEFT JOIN events e {event_by_id} ON e.id = i.event_id
            WHERE {in_batch} AND (e.id IS NULL OR e.created_at < %(before)s OR {well_before} > {now})
        """,
        message="not tracked; published: {created_at}",
        terms=_from_the_future,
    ),
    RowCheck(
        name="workflow-ends",
        invariant="A run that has ended has a fact that ended it, and its end was published.",
        table=INSTANCES,
        # The row is written last, so it is never ahead of its facts.
        sql="""
            SELECT w.id, w.status
            FROM {table} LEFT JOIN saga_facts f {fact_by_instance}
                ON f.instance_id = w.id AND f.role IN ('ended', 'emitted')
            WHERE {in_batch} AND w.status IN ('COMPLETED', 'COMPENSATED', 'FAILED')
            GROUP BY w.id, w.status
            HAVING SUM(CASE WHEN f.role = 'ended' THEN 1 ELSE 0 END) = 0
                OR SUM(CASE WHEN f.role = 'emitted' AND f.detail =
                    CASE w.status WHEN 'COMPLETED' THEN 'saga.completed' ELSE 'saga.failed' END THEN 1 ELSE 0 END) = 0
        """,
        message="{status} without a decision, or without its event",
    ),
    RowCheck(
        name="workflow-compensation",
        invariant="No compensation was requested for a completed run.",
        table=INSTANCES,
        sql="""
            SELECT w.id, MIN(f.event_id) AS event_id
            FROM {table} {join} saga_facts f {fact_by_instance} ON f.instance_id = w.id
            WHERE {in_batch} AND w.status = 'COMPLETED' AND f.role = 'emitted'
                AND f.detail = 'saga.compensation_requested'
            GROUP BY w.id
        """,
        message="COMPLETED, and event {event_id} asks for compensation",
    ),
    RowCheck(
        name="workflow-publications",
        invariant="Every event with the hub's source or a reserved type belongs to a fact of a run.",
        table=EVENTS,
        # The fact follows the event. Only a forged event can have a time in the future.
        sql="""
            SELECT e.id, e.event_type, e.source
            FROM {table} LEFT JOIN saga_facts f {fact_by_event}
                ON f.event_id = e.id AND f.role = 'emitted' AND f.detail = e.event_type
            LEFT JOIN saga_instances w {instance_by_id}
                ON w.id = f.instance_id AND w.correlation_key = e.correlation_id
            WHERE {in_batch}
                AND (e.source = 'hub' OR LOWER(e.event_type) = 'saga' OR LOWER(e.event_type) LIKE 'saga.%%')
                AND (e.created_at < %(before)s OR {well_before} > {now})
                AND (w.id IS NULL OR e.source <> 'hub')
        """,
        message="{event_type} from {source}, not published by a workflow run",
        terms=_from_the_future,
    ),
    RowCheck(
        name="workflow-deadlines",
        invariant="An open run has a deadline, and a passed deadline is processed soon.",
        table=INSTANCES,
        # A new run gets its deadline with its first fact.
        sql="""
            SELECT w.id, COALESCE(w.deadline, 'never') AS deadline FROM {table}
            WHERE {in_batch} AND w.status IN ('IN_PROGRESS', 'COMPENSATING')
                AND ((w.deadline IS NULL AND (w.version > 0 OR w.started_at < %(before)s)) OR w.deadline < %(before)s)
        """,
        message="the deadline has passed: {deadline}",
    ),
    RowCheck(
        name="workflow-references",
        invariant="A fact's run and event exist.",
        table=FACTS,
        sql="""
            SELECT f.id, f.instance_id, COALESCE(f.event_id, 0) AS event_id
            FROM {table} LEFT JOIN saga_instances w {instance_by_id} ON w.id = f.instance_id
            LEFT JOIN events e {event_by_id} ON e.id = f.event_id
            WHERE {in_batch} AND (w.id IS NULL OR (f.event_id IS NOT NULL AND e.id IS NULL))
        """,
        message="there is no run {instance_id} or no event {event_id}",
    ),
)
