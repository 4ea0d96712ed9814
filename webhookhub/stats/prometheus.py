"""The metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from sagas import transitions
from webhookhub.auditlog.record import url_without_query
from webhookhub.db import clock

from . import catalogue, counters, endpoints, open_work
from .attempts import COMPLETED, DEAD_LETTERED, DURATION_LABELS, LATENCY_LABELS
from .counters import Counts
from .endpoints import EndpointStats
from .histogram import DURATION_MS, LATENCY_SECONDS

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Samples = Mapping[tuple[str, ...], float]


def text() -> bytes:
    registry = CollectorRegistry()
    registry.register(StatsCollector())
    return generate_latest(registry)


class StatsCollector(Collector):
    def collect(self) -> Iterable[Metric]:
        yield from _counters(counters.read())
        for metric, value in open_work.read().items():
            samples: Samples = (
                {(label,): part for label, part in value.items()} if isinstance(value, dict) else {(): value}
            )
            yield _family(metric, samples)
        yield from _endpoints()


def _endpoints() -> Iterator[Metric]:
    now = clock.now()
    yield _family(catalogue.DELIVERIES_PARKED, {(): endpoints.count_waiting()})
    troubled = endpoints.count_troubled()
    yield _family(catalogue.ENDPOINTS, {(state,): count for state, count in troubled.items()})
    worst = {(url_without_query(each.url), str(each.subscription.pk)): each for each in endpoints.worst(now)}
    values: dict[catalogue.Metric, Callable[[EndpointStats], float | None]] = {
        catalogue.ENDPOINT_OPEN: lambda each: each.open,
        catalogue.ENDPOINT_WAITING: lambda each: each.waiting,
        catalogue.ENDPOINT_OLDEST: lambda each: (now - (each.oldest_waiting or now)).total_seconds(),
        catalogue.ENDPOINT_RATE: lambda each: each.attempts_per_second,
        catalogue.ENDPOINT_SUCCESS: lambda each: each.success_rate,
        catalogue.ENDPOINT_P95: lambda each: None if each.p95_ms is None else each.p95_ms / 1000,
        catalogue.ENDPOINT_BREAKER: lambda each: each.is_breaker_open,
        catalogue.ENDPOINT_DISABLED: lambda each: each.is_disabled,
    }
    for metric, read in values.items():
        samples: Samples = {labels: value for labels, each in worst.items() if (value := read(each)) is not None}
        yield _family(metric, samples)


def _counters(counts: Counts) -> Iterator[Metric]:
    attempts = _split(counts, counters.ATTEMPTS)
    ended: Samples = {
        (status,): sum(value for (outcome, _), value in attempts.items() if outcome == ending) + others
        for status, ending, others in (
            (transitions.COMPLETED, COMPLETED, 0),
            (transitions.DEAD_LETTERED, DEAD_LETTERED, counts.get((counters.ABANDONED, ""), 0)),
        )
    }
    yield _family(catalogue.EVENTS_ROUTED, _labelled(counts, counters.EVENTS_ROUTED, ("matched", "unmatched")))
    origins = ("routed", "requeued", "sent_again")
    yield _family(catalogue.DELIVERIES_CREATED, _labelled(counts, counters.DELIVERIES, origins))
    yield _family(catalogue.DELIVERIES_ENDED, ended)
    yield _family(catalogue.ATTEMPTS, attempts)
    yield _family(catalogue.LEASE_RESETS, {(): counts.get((counters.LEASE_RESETS, ""), 0)})
    yield _family(catalogue.REPEATED, {(): counts.get((counters.REPEATED, ""), 0)})
    latencies = [counts.get((counters.LATENCIES, label), 0) for label in LATENCY_LABELS]
    latency_sum = counts.get((counters.LATENCY_SUM, ""), 0) / 1_000_000
    yield _histogram(catalogue.LATENCY, LATENCY_SECONDS, latencies, latency_sum)
    durations = [counts.get((counters.DURATIONS, label), 0) for label in DURATION_LABELS]
    duration_sum = counts.get((counters.DURATION_SUM, ""), 0) / 1000
    yield _histogram(catalogue.DURATION, [bound / 1000 for bound in DURATION_MS], durations, duration_sum)
    yield _family(catalogue.WORKFLOW_EVENTS, {(): counts.get((counters.WORKFLOW_EVENTS, ""), 0)})
    started: Samples = {
        (label,): value for (name, label), value in counts.items() if name == counters.WORKFLOWS_STARTED
    }
    yield _family(catalogue.WORKFLOWS_STARTED, started)
    yield _family(catalogue.WORKFLOWS_ENDED, _split(counts, counters.WORKFLOWS_ENDED))
    yield from _workflows(counts, [name for (name,) in started])
    # A dead letter is requeued at most once.
    requeued = counts.get((counters.DELIVERIES, "requeued"), 0)
    yield _family(catalogue.DEAD_LETTERS, {(): max(0, ended[transitions.DEAD_LETTERED,] - requeued)})


def _workflows(counts: Counts, names: Sequence[str]) -> Iterator[Metric]:
    """The stats of ADR-025, with zeros for each workflow that has run, so that Prometheus sees the first increase."""
    results = ("succeeded", "failed")
    compensations: Samples = {
        (name, result): counts.get((counters.WORKFLOW_COMPENSATIONS, f"{name}/{result}"), 0)
        for name in names
        for result in results
    }
    yield _family(catalogue.WORKFLOW_COMPENSATIONS, compensations)
    yield _family(catalogue.WORKFLOWS_BY_HAND, _labelled(counts, counters.WORKFLOWS_BY_HAND, names))
    for metric, buckets, total in (
        (catalogue.WORKFLOW_DURATION, counters.WORKFLOW_DURATIONS, counters.WORKFLOW_DURATION_SUM),
        (catalogue.WORKFLOW_DETECTION, counters.WORKFLOW_DETECTIONS, counters.WORKFLOW_DETECTION_SUM),
    ):
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for name in names:
            values = [counts.get((buckets, f"{name}/{label}"), 0) for label in LATENCY_LABELS]
            seconds = counts.get((total, name), 0) / 1_000_000
            family.add_metric([name], _cumulative(LATENCY_SECONDS, values), seconds)
        yield family


def _split(counts: Counts, name: str) -> dict[tuple[str, ...], float]:
    """The counters of this name, with a label such as `retried/timeout` as two labels."""
    split: dict[tuple[str, ...], float] = {}
    for (counter, label), value in counts.items():
        if counter == name:
            first, _, second = label.partition("/")
            split[first, second] = value
    return split


def _labelled(counts: Counts, name: str, labels: Sequence[str]) -> Samples:
    """All of the labels, with 0 if there is no count, so that Prometheus sees the first increase."""
    return {(label,): counts.get((name, label), 0) for label in labels}


def _family(metric: catalogue.Metric, samples: Samples) -> Metric:
    family_class = CounterMetricFamily if metric.kind == catalogue.COUNTER else GaugeMetricFamily
    family = family_class(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(samples.items()):
        family.add_metric(labels, value)
    return family


def _histogram(metric: catalogue.Metric, bounds: Sequence[float], counts: Sequence[int], total: float) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.help)
    family.add_metric([], _cumulative(bounds, counts), total)
    return family


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    below, buckets = 0, []
    for bound, count in zip([*(f"{bound:g}" for bound in bounds), "+Inf"], counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets
