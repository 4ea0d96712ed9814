"""The metrics in the text format that Prometheus reads: totals as they were kept, and what is open right now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from sagas import transitions
from webhookhub.stats import counters
from webhookhub.stats.attempts import COMPLETED, DEAD_LETTERED, DURATION_LABELS, LATENCY_LABELS
from webhookhub.stats.histogram import DURATION_MS, LATENCY_SECONDS

from . import catalogue, open_work
from .open_work import Open

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Totals = Mapping[tuple[str, str], int]
Samples = Mapping[tuple[str, ...], float]


def text() -> bytes:
    registry = CollectorRegistry()
    registry.register(Figures(counters.read(), open_work.read()))
    return generate_latest(registry)


class Figures(Collector):
    def __init__(self, kept: Totals, now: Open) -> None:
        self._kept = kept
        self._now = now

    def collect(self) -> Iterable[Metric]:
        yield from self._totals()
        yield from self._open()

    def _totals(self) -> Iterable[Metric]:
        kept = self._kept
        results = {_parted(label): value for (name, label), value in kept.items() if name == counters.RESULTS}
        ended: Samples = {
            (status,): sum(value for (outcome, _), value in results.items() if outcome == ending)
            for status, ending in ((transitions.COMPLETED, COMPLETED), (transitions.DEAD_LETTERED, DEAD_LETTERED))
        }
        requeued = kept.get((counters.DELIVERIES, "requeued"), 0)
        yield _family(catalogue.EVENTS_ROUTED, _labelled(kept, counters.EVENTS_ROUTED, ("matched", "unmatched")))
        yield _family(catalogue.DELIVERIES_CREATED, _labelled(kept, counters.DELIVERIES, ("routed", "requeued")))
        yield _family(catalogue.DELIVERIES_ENDED, ended)
        yield _family(catalogue.ATTEMPTS, results)
        yield _family(catalogue.LEASE_RESETS, {(): kept.get((counters.LEASE_RESETS, ""), 0)})
        latencies = [kept.get((counters.LATENCIES, label), 0) for label in LATENCY_LABELS]
        latency_sum = kept.get((counters.LATENCY_SUM, ""), 0) / 1_000_000
        yield _histogram(catalogue.LATENCY, LATENCY_SECONDS, latencies, latency_sum)
        durations = [kept.get((counters.DURATIONS, label), 0) for label in DURATION_LABELS]
        duration_sum = kept.get((counters.DURATION_SUM, ""), 0) / 1000
        yield _histogram(catalogue.DURATION, [bound / 1000 for bound in DURATION_MS], durations, duration_sum)
        yield _family(catalogue.WORKFLOW_EVENTS, {(): kept.get((counters.WORKFLOW_EVENTS, ""), 0)})
        started: Samples = {
            (label,): value for (name, label), value in kept.items() if name == counters.WORKFLOWS_STARTED
        }
        yield _family(catalogue.WORKFLOWS_STARTED, started)
        endings = {_parted(label): value for (name, label), value in kept.items() if name == counters.WORKFLOWS_ENDED}
        yield _family(catalogue.WORKFLOWS_ENDED, endings)
        # A dead letter is requeued at most once.
        yield _family(catalogue.DEAD_LETTERS, {(): max(0, ended[transitions.DEAD_LETTERED,] - requeued)})

    def _open(self) -> Iterable[Metric]:
        now = self._now
        yield _family(catalogue.EVENTS_WAITING, {(): now.events_waiting})
        yield _family(catalogue.EVENTS_OLDEST, {(): now.oldest_event_seconds})
        yield _family(catalogue.DELIVERIES, _by_label(now.deliveries))
        yield _family(catalogue.DUE, _by_label(now.due))
        yield _family(catalogue.PAST_DUE, {(): now.past_due})
        yield _family(catalogue.OLDEST_DUE, {(): now.oldest_due_seconds})
        yield _family(catalogue.JOBS, _by_label(now.jobs))
        yield _family(catalogue.EXPIRED_LEASES, {(): now.expired_leases})
        yield _family(catalogue.WORKFLOW_EVENTS_WAITING, {(): now.workflow_events_waiting})
        yield _family(catalogue.WORKFLOWS, _by_label(now.workflows))
        yield _family(catalogue.WORKFLOWS_OVERDUE, {(): now.workflows_overdue})
        yield _family(catalogue.WORKFLOWS_FOR_OPERATORS, {(): now.workflows_for_operators})
        yield _family(catalogue.PROCESSES, _by_label(now.processes))
        yield _family(catalogue.HEARTBEAT, _by_label(now.heartbeat_ages))
        yield _family(catalogue.COUNT_LIMIT, {(): open_work.LIMIT})


def _parted(label: str) -> tuple[str, ...]:
    """`retried/timeout` as (outcome, error code), and so on."""
    outcome, _, error_code = label.partition("/")
    return outcome, error_code


def _labelled(kept: Totals, name: str, labels: Sequence[str]) -> Samples:
    """All of the labels, so that a series is there before anything happens, and its first increase is seen."""
    return {(label,): kept.get((name, label), 0) for label in labels}


def _by_label(values: Mapping[str, float]) -> Samples:
    return {(label,): value for label, value in values.items()}


def _family(metric: catalogue.Metric, samples: Samples) -> Metric:
    make = CounterMetricFamily if metric.kind == catalogue.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(samples.items()):
        family.add_metric(labels, value)
    return family


def _histogram(metric: catalogue.Metric, bounds: Sequence[float], counted: Sequence[int], total: float) -> Metric:
    below, buckets = 0, []
    for bound, count in zip([*(f"{bound:g}" for bound in bounds), "+Inf"], counted, strict=True):
        below += count
        buckets.append((bound, below))
    family = HistogramMetricFamily(metric.name, metric.help)
    family.add_metric([], buckets, total)
    return family
