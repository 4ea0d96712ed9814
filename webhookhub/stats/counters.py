"""Running totals: added to in the transaction that does what is counted, and so counted exactly once."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Sum

from webhookhub.db.bulk import add_up

from .models import Counter
from .shards import own_shard

# name: what its labels are
EVENTS_ROUTED = "events_routed"  # whether a subscription wanted the event: matched, unmatched
DELIVERIES = "deliveries"  # how the delivery came into the world: routed, requeued
RESULTS = "results"  # how the attempt ended, and its error code: retried/http_503
LEASE_RESETS = "lease_resets"
DURATIONS = "durations"  # the bucket's upper bound in milliseconds, or more
DURATION_SUM = "duration_ms"
LATENCIES = "latencies"  # the bucket's upper bound in seconds, or more
LATENCY_SUM = "latency_us"
MORE = "more"
WORKFLOW_EVENTS = "workflow_events"  # events that trackers have looked at
WORKFLOWS_STARTED = "workflows_started"  # the workflow's name
WORKFLOWS_ENDED = "workflows_ended"  # its name and status: order_submission/COMPLETED
WORKFLOW_STEPS = "workflow_steps"  # its name and a step that was done
WORKFLOW_DURATIONS = "workflow_durations"  # its name and the bucket's upper bound in seconds, or more; completed ones
WORKFLOW_DURATION_SUM = "workflow_duration_us"  # its name
WORKFLOW_DETECTIONS = "workflow_detections"  # its name, and the bucket of how soon its failure was noticed
WORKFLOWS_BY_HAND = "workflows_by_hand"  # its name: an operator has had a hand in it

Counts = Mapping[tuple[str, str], int]


def add(counts: Counts) -> None:
    """Add to totals by name and label, with one statement. Belongs at the end of a transaction: others may wait."""
    shard = own_shard()
    rows = {(name, label, shard): (value,) for (name, label), value in counts.items() if value}
    add_up(Counter, ("name", "label", "shard"), ("value",), rows)


def read() -> dict[tuple[str, str], int]:
    """All totals there are: as many as there are names and labels, however much was counted."""
    rows = Counter.objects.values_list("name", "label").annotate(sum=Sum("value")).order_by("name", "label")
    return {(name, label): int(value) for name, label, value in rows}
