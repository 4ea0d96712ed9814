"""Counters since the installation, updated in the transaction of what they count, so that each is counted once."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Mapping

from django.db.models import Sum

from webhookhub.db.bulk import add_up

from .models import Counter

# Name: the meaning of its labels
EVENTS_ROUTED = "events_routed"  # matched or unmatched
DELIVERIES = "deliveries"  # routed, requeued or sent_again
ATTEMPTS = "attempts"  # outcome and error code: retried/http_503
ABANDONED = "abandoned"  # deliveries that a person has abandoned
LEASE_RESETS = "lease_resets"
REPEATED = "repeated"  # attempts that were sent again after their lease was lost
DURATIONS = "durations"  # the bucket's upper bound in milliseconds, or MORE
DURATION_SUM = "duration_ms"
LATENCIES = "latencies"  # the bucket's upper bound in seconds, or MORE
LATENCY_SUM = "latency_us"
MORE = "more"
WORKFLOW_EVENTS = "workflow_events"  # events that trackers have processed
WORKFLOWS_STARTED = "workflows_started"  # the workflow's name
WORKFLOWS_ENDED = "workflows_ended"  # its name and status: order_submission/COMPLETED
WORKFLOW_STEPS = "workflow_steps"  # its name and the completed step
WORKFLOW_DURATIONS = "workflow_durations"  # its name and the bucket's upper bound in seconds, or MORE; completed runs
WORKFLOW_DURATION_SUM = "workflow_duration_us"  # its name
WORKFLOW_DETECTIONS = "workflow_detections"  # its name and the bucket of the time until its failure was detected
WORKFLOW_DETECTION_SUM = "workflow_detection_us"  # its name
WORKFLOW_COMPENSATIONS = "workflow_compensations"  # its name and the result: order_submission/succeeded
WORKFLOWS_BY_HAND = "workflows_by_hand"  # its name: runs that an operator has acted on

Counts = Mapping[tuple[str, str], int]

# A counter is the sum of its shards, so that concurrent processes rarely lock the same row.
SHARDS = 16


def own_shard() -> int:
    """Computed at each call, because a process may fork."""
    return zlib.crc32(f"{socket.gethostname()}:{os.getpid()}".encode()) % SHARDS


def add(counts: Counts) -> None:
    """Add to counters by name and label, with one statement. Call it at the end of a transaction: it locks rows."""
    shard = own_shard()
    rows = {(name, label, shard): (value,) for (name, label), value in counts.items() if value}
    add_up(Counter, ("name", "label", "shard"), ("value",), rows)


def read() -> dict[tuple[str, str], int]:
    """All counters by name and label."""
    rows = Counter.objects.values_list("name", "label").annotate(sum=Sum("value")).order_by("name", "label")
    return {(name, label): int(value) for name, label, value in rows}
