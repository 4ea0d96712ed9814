"""One result, counted where it belongs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhookhub.egress.error_codes import MEANING
from webhookhub.stats import attempts, counters
from webhookhub.stats.attempts import AttemptResult
from webhookhub.stats.models import COUNTED, FAILURES, Period

NOON = datetime(2026, 11, 16, 12, 0, 42, 123456, tzinfo=UTC)


def result(outcome: str = "completed", code: str | None = None, took: float = 1.0, ms: int = 40) -> AttemptResult:
    return AttemptResult(7, outcome, code, NOON - timedelta(seconds=took), NOON, ms)


@pytest.mark.parametrize(
    ("code", "column", "known"),
    [
        ("http_404", "failed_4xx", "http_404"),
        ("http_503", "failed_5xx", "http_503"),
        ("http_499", "failed_4xx", "http_4xx"),
        ("http_599", "failed_5xx", "http_5xx"),
        ("http_999", "failed_other", "http_9xx"),
        ("http_100", "failed_other", "http_100"),
        ("timeout", "failed_timeout", "timeout"),
        ("dns_error", "failed_connection", "dns_error"),
        ("blocked_address", "failed_other", "blocked_address"),
    ],
)
@pytest.mark.django_db
def test_a_failure_is_counted_by_its_code_and_its_class(code: str, column: str, known: str):
    attempts.add([result("retried", code), result("dead_lettered", code)])

    row = Period.objects.values(*COUNTED).get()
    assert {name: value for name, value in row.items() if value} == {
        "attempts": 2,
        "dead_lettered": 1,
        column: 2,
        "duration_ms": 80,
        "within_50_ms": 2,
    }
    ended = {label: value for (name, label), value in counters.read().items() if name == "attempts"}
    assert ended == {f"retried/{known}": 1, f"dead_lettered/{known}": 1}


def test_every_error_code_has_a_class():
    assert {attempts.failure(code) for code in MEANING} <= set(FAILURES)
    assert [code for code in MEANING if attempts.known(code) != code] == []


@pytest.mark.django_db
def test_a_success_is_counted_with_its_latency():
    attempts.add([result(took=0.2), result(took=0.25), result(took=90000, ms=31000), result(took=-5)])

    counts = counters.read()
    assert {label: value for (name, label), value in counts.items() if name == "latencies"} == {
        "0.1": 1,  # a clock that went back does not make a negative time
        "0.25": 2,
        "more": 1,
    }
    assert counts["latency_us", ""] == 90_000_450_000
    assert {label: value for (name, label), value in counts.items() if name == "durations"} == {"50": 3, "more": 1}


@pytest.mark.django_db
def test_results_add_up_by_minute_and_subscription():
    later = result()._replace(finished_at=NOON + timedelta(minutes=1), subscription_id=8)
    attempts.add([result(), later, result()])
    attempts.add([result()])

    rows = Period.objects.order_by("starts_at").values_list("period", "starts_at", "subscription_id", "attempts")
    minute = NOON.replace(second=0, microsecond=0)
    assert list(rows) == [("minute", minute, 7, 3), ("minute", minute + timedelta(minutes=1), 8, 1)]


@pytest.mark.django_db
def test_zero_counts_write_nothing():
    attempts.add([])
    counters.add({("attempts", "completed"): 0})
    assert counters.read() == {}
    assert not Period.objects.exists()


@pytest.mark.django_db
def test_attempts_that_were_sent_again_are_counted():
    attempts.add([result(), result()._replace(lease_resets=2)])
    assert counters.read()["repeated", ""] == 2
    # Given up after six lost leases: five repetitions, and nothing sent by the last lease.
    attempts.add([result("retried", "lease_expired")._replace(lease_resets=6)])
    assert counters.read()["repeated", ""] == 7
