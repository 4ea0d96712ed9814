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
    "Events routed, by whether a subscription matched (matched, unmatched).",
    ("result",),
)
DELIVERIES_CREATED = Metric(
    "webhookhub_deliveries_created_total",
    COUNTER,
    "Deliveries created, by origin: routed (including backfills), requeued, or sent_again after a success.",
    ("origin",),
)
DELIVERIES_ENDED = Metric(
    "webhookhub_deliveries_ended_total",
    COUNTER,
    "Deliveries ended: Completed or DeadLettered (including abandoned ones).",
    ("status",),
)
ATTEMPTS = Metric(
    "webhookhub_attempts_total",
    COUNTER,
    "Attempts whose result was applied, by outcome (completed, retried, dead_lettered) and error code.",
    ("outcome", "error_code"),
)
LEASE_RESETS = Metric("webhookhub_lease_resets_total", COUNTER, "Expired leases that the cleaner has reset.")
REPEATED = Metric(
    "webhookhub_attempts_repeated_total",
    COUNTER,
    "Attempts that were sent again after their lease was lost: the most duplicates of a webhook-id that endpoints got.",
)
LATENCY = Metric(
    "webhookhub_delivery_latency_seconds",
    HISTOGRAM,
    "Time from an event's creation, or from its requeue, to its successful delivery.",
)
DURATION = Metric("webhookhub_attempt_duration_seconds", HISTOGRAM, "Duration of requests, including failed ones.")
EVENTS_WAITING = Metric("webhookhub_events_waiting", GAUGE, "Events that are not routed yet.")
DELIVERIES = Metric("webhookhub_deliveries", GAUGE, "Deliveries that have not ended, by status.", ("status",))
DUE = Metric("webhookhub_deliveries_due", GAUGE, "Deliveries whose next attempt is due, by status.", ("status",))
PAST_DUE = Metric(
    "webhookhub_deliveries_past_due", GAUGE, "Deliveries whose next attempt has been due for more than a minute."
)
JOBS = Metric(
    "webhookhub_jobs",
    GAUGE,
    "Open attempts: Pending (ready to be sent), Leased (being sent), Unsettled (result not applied yet).",
    ("status",),
)
OLDEST_READY = Metric(
    "webhookhub_oldest_ready_seconds",
    GAUGE,
    "How long the oldest work that is ready has not been taken by a loop: events to route, deliveries whose attempt is "
    "due, parked_deliveries of endpoints that may have attempts, attempts to send, expired_leases to reset, results "
    "to apply, workflow_events to process.",
    ("work",),
)
EXPIRED_LEASES = Metric("webhookhub_expired_leases", GAUGE, "Expired leases that are not reset yet.")
DEAD_LETTERS = Metric("webhookhub_dead_letters", GAUGE, "Dead letters that are not requeued.")
WORKFLOW_EVENTS = Metric("webhookhub_workflow_events_total", COUNTER, "Workflow events that trackers have processed.")
WORKFLOWS_STARTED = Metric(
    "webhookhub_workflows_started_total", COUNTER, "Workflow runs started, by workflow.", ("workflow",)
)
WORKFLOWS_ENDED = Metric(
    "webhookhub_workflows_ended_total",
    COUNTER,
    "Workflow runs ended, by workflow and status: COMPLETED, COMPENSATED or FAILED.",
    ("workflow", "status"),
)
WORKFLOW_COMPENSATIONS = Metric(
    "webhookhub_workflow_compensations_total",
    COUNTER,
    "Compensations ended, by workflow and result: succeeded or failed.",
    ("workflow", "result"),
)
WORKFLOW_DURATION = Metric(
    "webhookhub_workflow_duration_seconds",
    HISTOGRAM,
    "Duration of workflow runs that completed, by workflow.",
    ("workflow",),
)
WORKFLOW_DETECTION = Metric(
    "webhookhub_workflow_detection_seconds",
    HISTOGRAM,
    "Time from the failure of a workflow run, or from its missed deadline, to its detection, by workflow.",
    ("workflow",),
)
WORKFLOWS_BY_HAND = Metric(
    "webhookhub_workflows_by_hand_total",
    COUNTER,
    "Workflow runs that an operator has acted on, by workflow.",
    ("workflow",),
)
WORKFLOW_EVENTS_WAITING = Metric(
    "webhookhub_workflow_events_waiting", GAUGE, "Workflow events that are not processed yet."
)
WORKFLOWS = Metric("webhookhub_workflows", GAUGE, "Workflow runs that have not ended, by status.", ("status",))
WORKFLOWS_OVERDUE = Metric(
    "webhookhub_workflows_overdue",
    GAUGE,
    "Workflow runs whose deadline passed more than a minute ago and is not processed yet.",
)
WORKFLOWS_FOR_OPERATORS = Metric(
    "webhookhub_workflows_need_operator",
    GAUGE,
    "Workflow runs that need an operator.",
)
KEYS_EXPIRING = Metric(
    "webhookhub_api_keys_expiring",
    GAUGE,
    "API keys that are still valid and expire within WEBHOOKHUB_KEY_EXPIRY_WARNING.",
)
PROCESSES = Metric("webhookhub_processes", GAUGE, "Running loops, by kind.", ("kind",))
HEARTBEAT = Metric(
    "webhookhub_process_heartbeat_age_seconds",
    GAUGE,
    "Time since the last heartbeat of any loop of a kind.",
    ("kind",),
)
DELIVERIES_PARKED = Metric(
    "webhookhub_deliveries_parked", GAUGE, "Deliveries that wait for their endpoints (up to 10,000)."
)
ENDPOINTS = Metric(
    "webhookhub_endpoints",
    GAUGE,
    "Endpoints in trouble, by state: failing, probed (those of them that are only probed), disabled.",
    ("state",),
)
# Of the twenty worst endpoints: `subscription` is the lowest id of a subscription with this URL.
OF_ENDPOINT = ("endpoint", "subscription")
ENDPOINT_OPEN = Metric(
    "webhookhub_endpoint_open", GAUGE, "Open attempts of one of the 20 worst endpoints.", OF_ENDPOINT
)
ENDPOINT_WAITING = Metric(
    "webhookhub_endpoint_waiting",
    GAUGE,
    "Deliveries that wait for one of the 20 worst endpoints (up to 10,000).",
    OF_ENDPOINT,
)
ENDPOINT_OLDEST = Metric(
    "webhookhub_endpoint_oldest_waiting_seconds",
    GAUGE,
    "Age of the oldest delivery that waits for one of the 20 worst endpoints.",
    OF_ENDPOINT,
)
ENDPOINT_RATE = Metric(
    "webhookhub_endpoint_attempts_per_second",
    GAUGE,
    "Attempts per second of one of the 20 worst endpoints, over the last five minutes.",
    OF_ENDPOINT,
)
ENDPOINT_SUCCESS = Metric(
    "webhookhub_endpoint_success_ratio",
    GAUGE,
    "Share of the attempts of the last hour that succeeded, of one of the 20 worst endpoints.",
    OF_ENDPOINT,
)
ENDPOINT_P95 = Metric(
    "webhookhub_endpoint_p95_seconds",
    GAUGE,
    "95th percentile of the durations of the last hour, of one of the 20 worst endpoints.",
    OF_ENDPOINT,
)
ENDPOINT_BREAKER = Metric(
    "webhookhub_endpoint_breaker_open",
    GAUGE,
    "1 if one of the 20 worst endpoints is only probed, else 0.",
    OF_ENDPOINT,
)
ENDPOINT_DISABLED = Metric(
    "webhookhub_endpoint_disabled", GAUGE, "1 if one of the 20 worst endpoints is disabled, else 0.", OF_ENDPOINT
)
COUNT_LIMIT = Metric(
    "webhookhub_count_limit",
    GAUGE,
    "The gauges above count up to this limit; a value equal to it means at least as many.",
)

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
