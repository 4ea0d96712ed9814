"""Running totals: added to in the transaction that does what is counted, and so counted exactly once."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Sum

from webhookhub.db.statements import add_up

from .models import Total
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

Counts = Mapping[tuple[str, str], int]


def add(counts: Counts) -> None:
    """Add to totals by name and label, with one statement. Belongs at the end of a transaction: others may wait."""
    shard = own_shard()
    rows = {(name, label, shard): (value,) for (name, label), value in counts.items() if value}
    add_up(Total, ("name", "label", "shard"), ("value",), rows)


def read() -> dict[tuple[str, str], int]:
    """All totals there are: as many as there are names and labels, however much was counted."""
    rows = Total.objects.values_list("name", "label").annotate(sum=Sum("value")).order_by("name", "label")
    return {(name, label): int(value) for name, label, value in rows}
