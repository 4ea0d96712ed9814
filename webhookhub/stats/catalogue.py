"""Every metric: its name, kind, labels and meaning. A test compares the documentation with this list."""

from __future__ import annotations

from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


EVENTS_ROUTED = Metric(
    "webhookhub_events_routed_total",
    COUNTER,
    "Events routed, by whether a subscription wanted them (matched, unmatched).",
    ("result",),
)
DELIVERIES_CREATED = Metric(
    "webhookhub_deliveries_created_total",
    COUNTER,
    "Deliveries created, by how: routed (backfilled ones included) or requeued.",
    ("origin",),
)
DELIVERIES_ENDED = Metric(
    "webhookhub_deliveries_ended_total", COUNTER, "Deliveries ended: Completed or DeadLettered.", ("status",)
)
ATTEMPTS = Metric(
    "webhookhub_attempts_total",
    COUNTER,
    "Attempts whose result was applied, by outcome (completed, retried, dead_lettered) and error code.",
    ("outcome", "error_code"),
)
LEASE_RESETS = Metric("webhookhub_lease_resets_total", COUNTER, "Leases taken back from workers that had gone silent.")
LATENCY = Metric(
    "webhookhub_delivery_latency_seconds",
    HISTOGRAM,
    "Time from an event's creation, or from its requeue, to its successful delivery.",
)
DURATION = Metric("webhookhub_attempt_duration_seconds", HISTOGRAM, "Time that requests took, failed ones included.")
EVENTS_WAITING = Metric("webhookhub_events_waiting", GAUGE, "Events that no router has seen yet.")
EVENTS_OLDEST = Metric(
    "webhookhub_events_oldest_waiting_seconds", GAUGE, "Age of the oldest event that no router has seen yet."
)
DELIVERIES = Metric("webhookhub_deliveries", GAUGE, "Deliveries that have not ended, by status.", ("status",))
DUE = Metric("webhookhub_deliveries_due", GAUGE, "Deliveries whose next attempt is due, by status.", ("status",))
PAST_DUE = Metric(
    "webhookhub_deliveries_past_due", GAUGE, "Deliveries whose next attempt has been due for more than a minute."
)
OLDEST_DUE = Metric(
    "webhookhub_deliveries_oldest_due_seconds", GAUGE, "How long the longest waiting attempt has been due."
)
JOBS = Metric(
    "webhookhub_jobs",
    GAUGE,
    "Attempts that are open: Pending (ready to be sent), Leased (being sent), Unsettled (result not applied yet).",
    ("status",),
)
EXPIRED_LEASES = Metric("webhookhub_expired_leases", GAUGE, "Leases past their time that no cleaner has reset yet.")
DEAD_LETTERS = Metric("webhookhub_dead_letters", GAUGE, "Dead letters that nobody has requeued.")
WORKFLOW_EVENTS = Metric(
    "webhookhub_workflow_events_total", COUNTER, "Events of business workflows that trackers have looked at."
)
WORKFLOWS_STARTED = Metric("webhookhub_workflows_started_total", COUNTER, "Workflows begun, by type.", ("workflow",))
WORKFLOWS_ENDED = Metric(
    "webhookhub_workflows_ended_total",
    COUNTER,
    "Workflows ended, by type and status: COMPLETED, COMPENSATED or FAILED.",
    ("workflow", "status"),
)
WORKFLOW_EVENTS_WAITING = Metric(
    "webhookhub_workflow_events_waiting", GAUGE, "Events of business workflows that no tracker has looked at yet."
)
WORKFLOWS = Metric("webhookhub_workflows", GAUGE, "Workflows that have not ended, by status.", ("status",))
WORKFLOWS_OVERDUE = Metric(
    "webhookhub_workflows_overdue", GAUGE, "Workflows whose deadline has passed for more than a minute unnoticed."
)
WORKFLOWS_FOR_OPERATORS = Metric(
    "webhookhub_workflows_need_operator",
    GAUGE,
    "Workflows of which something is left that only a person can put right.",
)
PROCESSES = Metric("webhookhub_processes", GAUGE, "Running loops, by kind.", ("kind",))
HEARTBEAT = Metric(
    "webhookhub_process_heartbeat_age_seconds",
    GAUGE,
    "Time since the last heartbeat of any loop of a kind.",
    ("kind",),
)
COUNT_LIMIT = Metric(
    "webhookhub_count_limit", GAUGE, "Open things are counted up to this number only: it means at least as many."
)

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
