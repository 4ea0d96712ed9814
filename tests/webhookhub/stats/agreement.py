"""The expected counters, counted from the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db.models import Sum

from deadletters.models import Requeue
from events.models import Event, RoutingInbox
from jobs.models import Job
from sagas.models import Saga
from webhookhub.stats import counters
from webhookhub.stats.histogram import DURATION_MS
from webhookhub.stats.models import COUNTED, Period

Key = tuple[str, str]
# Times cannot be counted from the rows; workflows have separate tests.
NOT_COUNTED_HERE = ("latencies", "latency_us", "workflow")


def assert_counters_agree() -> None:
    counts = {key: value for key, value in counters.read().items() if not key[0].startswith(NOT_COUNTED_HERE)}
    assert counts == counted()
    latencies = [value for (name, _), value in counters.read().items() if name == "latencies"]
    assert sum(latencies) == sum(job.error_code is None for job in settled())
    assert periods() == counted_periods()


def settled() -> list[Job]:
    return list(Job.objects.filter(settled_at__isnull=False).select_related("saga"))


def counted() -> dict[Key, int]:
    matched = set(Saga.objects.filter(generation=0).values_list("event_id", flat=True))
    waiting = set(RoutingInbox.objects.values_list("event_id", flat=True))
    routed = set(Event.objects.values_list("id", flat=True)) - waiting
    found: Counter[Key] = Counter()
    found["events_routed", "matched"] = len(routed & matched)
    found["events_routed", "unmatched"] = len(routed - matched)
    found["deliveries", "routed"] = Saga.objects.filter(generation=0).count()
    found["deliveries", "requeued"] = Requeue.objects.count()
    found["deliveries", "sent_again"] = Saga.objects.filter(generation__gt=0).count() - Requeue.objects.count()
    found["abandoned", ""] = Saga.objects.filter(final_error_code="abandoned").count()
    found["lease_resets", ""] = sum(Job.objects.values_list("lease_resets", flat=True))
    for job in settled():
        found["repeated", ""] += max(0, job.lease_resets - (job.error_code == "lease_expired"))
        found["attempts", result(job)] += 1
        found["durations", str(bound(job) or "more")] += 1
        found["duration_ms", ""] += job.duration_ms or 0
    return {key: value for key, value in found.items() if value}


def bound(job: Job) -> int | None:
    """The first bound of the histogram that the job's duration does not exceed."""
    return next((limit for limit in DURATION_MS if (job.duration_ms or 0) <= limit), None)


def result(job: Job) -> str:
    if job.error_code is None:
        return "completed"
    last = job.saga.status == "DeadLettered" and job.attempt_no == job.saga.max_retry_limit
    return f"{'dead_lettered' if last else 'retried'}/{job.error_code}"


def periods() -> dict[tuple[Any, int], dict[str, int]]:
    sums = {f"sum_{name}": Sum(name) for name in COUNTED}
    rows = Period.objects.values("starts_at", "subscription_id").order_by().annotate(**sums)
    return {
        (row["starts_at"], row["subscription_id"]): {name: row[f"sum_{name}"] for name in COUNTED if row[f"sum_{name}"]}
        for row in rows
    }


def counted_periods() -> dict[tuple[Any, int], dict[str, int]]:
    found: dict[tuple[Any, int], Counter[str]] = {}
    for job in settled():
        assert job.finished_at is not None
        row = found.setdefault((job.finished_at.replace(second=0, microsecond=0), job.saga.subscription_id), Counter())
        row["attempts"] += 1
        row["duration_ms"] += job.duration_ms or 0
        row[f"within_{bound(job)}_ms" if bound(job) else "slower"] += 1
        row["completed" if job.error_code is None else "failed_5xx"] += 1
        row["dead_lettered"] += result(job).startswith("dead_lettered")
    return {key: {name: value for name, value in row.items() if value} for key, row in found.items()}
