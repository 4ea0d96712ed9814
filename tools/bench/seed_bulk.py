"""Fills an empty, migrated database with millions of consistent rows by INSERT … SELECT on the server.

    DATABASE_URL=mysql://… python -m tools.bench.seed_bulk --sagas 5000000 --dead 100000

It bypasses publish() and the loops, but `manage.py audit` finds no violation. Each event has one delivery, because each
event type has one subscription.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tools.bench.database import NUMBERS
from tools.bench.scratch_database import execute
from tools.support import guards

ROWS = 50_000  # per statement
LIMIT = 3
# The deliveries are spread over this time, which ends a minute ago.
SPAN_SECONDS = 7 * 24 * 3600
ERRORS = ("http_500", "http_503", "timeout", "connect_error", "dns_error", "http_404", "tls_error", "http_410")
SOURCES = ("shop", "billing", "warehouse")


@dataclass(frozen=True)
class Sizes:
    sagas: int = 5_000_000
    dead: int = 100_000
    # Deliveries that succeeded at the second attempt.
    retried: int = 800_000
    # Unfinished deliveries: half of them wait for their first attempt, half for their second.
    waiting: int = 10_000
    requeued: int = 10_000
    subscriptions: int = 200

    @classmethod
    def mixed(cls, sagas: int) -> Sizes:
        """Of a hundred deliveries, one is dead, four were retried and four are unfinished."""
        return cls(sagas, dead=sagas // 100, retried=sagas // 25, waiting=sagas // 25, requeued=0, subscriptions=4)

    def __post_init__(self) -> None:
        finished = self.dead + self.retried + self.waiting
        if finished > self.sagas or self.requeued > self.dead or self.subscriptions < 1:
            raise ValueError("dead + retried + waiting must not exceed sagas, and requeued must not exceed dead")

    @property
    def jobs(self) -> int:
        """Three for a dead delivery, two for a retried one, none or one for an unfinished one, one for all others."""
        plain = self.sagas - self.dead - self.retried - self.waiting
        return plain + LIMIT * self.dead + 2 * self.retried + self.waiting // 2


def seed(sizes: Sizes, progress: Callable[[str], None] = lambda text: None) -> None:
    with guards.switched_off():
        _seed(sizes, progress)
    tables = "events, subscriptions, webhook_delivery_sagas, webhook_delivery_jobs, dead_letters, stats_periods"
    execute(f"ANALYZE TABLE {tables}")


def _seed(sizes: Sizes, progress: Callable[[str], None]) -> None:
    _subscriptions(sizes)
    for low in range(0, sizes.sagas, ROWS):
        high = min(low + ROWS, sizes.sagas)
        _events(sizes, low, high)
        _sagas(sizes, low, high)
        _jobs(low, high)
        _dead_letters(low, high)
        progress(f"{high} of {sizes.sagas} deliveries")
    _requeues(sizes)
    _stats()


def _subscriptions(sizes: Sizes) -> None:
    from subscriptions.models import Subscription
    from subscriptions.signing import SYMMETRIC, new_secret
    from webhookhub import crypto

    secret = crypto.encrypt(new_secret(SYMMETRIC))
    Subscription.objects.bulk_create(
        Subscription(
            id=number + 1,
            event_type=f"order.type{number}",
            callback_url=f"https://hooks{number % 50}.example.com/endpoint/{number}",
            description=f"Endpoint {number}",
            secret=secret,
        )
        for number in range(sizes.subscriptions)
    )
    # Before all events, so that each of them had to be routed to the subscription of its type.
    before = f"UTC_TIMESTAMP(6) - INTERVAL {SPAN_SECONDS * 2} SECOND"
    execute(f"UPDATE subscriptions SET verified = 1, verification_at = {before}, updated_at = {before}")


def _events(sizes: Sizes, low: int, high: int) -> None:
    step = SPAN_SECONDS / sizes.sagas
    start = f"UTC_TIMESTAMP(6) - INTERVAL {SPAN_SECONDS + 600} SECOND"
    number = f"({low} + n)"
    # As the hub creates them: they start with the time, so that the newest are adjacent in the index.
    random = f"SHA2({number}, 256)"
    parts = f"'7', SUBSTR({random}, 1, 3), '8', SUBSTR({random}, 4, 3), SUBSTR({random}, 7, 12)"
    uid = f"CONCAT(LPAD(HEX({number}), 12, '0'), {parts})"
    sources = _one_of(SOURCES, number)
    execute(
        "INSERT INTO events (id, uid, event_type, source, external_id, correlation_id, payload, created_at) "
        f"SELECT {number} + 1, {uid}, CONCAT('order.type', {number} MOD {sizes.subscriptions}), "
        f"{sources}, CONCAT('order-', {number}), CONCAT('correlation-', {number} DIV 3), "
        f"CONCAT('{{\"order\":', {number}, ',\"customer\":\"c-', {number} MOD 1000, '\"}}'), "
        f"TIMESTAMPADD(MICROSECOND, {number} * {step * 1e6:.3f}, {start}) "
        f"FROM {NUMBERS} WHERE n < {high - low} ORDER BY n"
    )
    execute(f"DELETE FROM routing_inbox WHERE event_id > {low} AND event_id <= {high}")


def _one_of(words: tuple[str, ...], number: str) -> str:
    """An SQL expression that selects a word by a number."""
    listed = ", ".join(f"'{word}'" for word in words)
    return f"ELT(1 + {number} MOD {len(words)}, {listed})"


def _spread(count: int, total: int, number: str) -> str:
    """An SQL condition that is true for `count` of `total` consecutive numbers, evenly spread."""
    return f"(({number} + 1) * {count} DIV {total} > {number} * {count} DIV {total})"


def _sagas(sizes: Sizes, low: int, high: int) -> None:
    number = "(e.id - 1)"
    rest = sizes.sagas - sizes.dead
    dead = _spread(sizes.dead, sizes.sagas, number)
    # The newest are unfinished; all others that are not dead succeeded at the first or second attempt.
    waits = f"(e.id > {sizes.sagas - sizes.waiting} AND NOT {dead})"
    retried = _spread(sizes.retried, max(1, rest), number)
    kind = (
        f"CASE WHEN {dead} THEN 'dead' WHEN {waits} THEN IF(e.id MOD 2, 'first', 'second') "
        f"WHEN {retried} THEN 'retried' ELSE 'plain' END"
    )
    errors = _one_of(ERRORS, "e.id DIV 7")
    later = "UTC_TIMESTAMP(6) + INTERVAL (30 + e.id MOD 86400) SECOND"
    execute(
        "INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, generation, status, attempt_count, "
        "next_attempt_at, max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        "SELECT id, id, subscription, 0, "
        "CASE kind WHEN 'dead' THEN 'DeadLettered' WHEN 'first' THEN 'Pending' WHEN 'second' THEN 'PendingRetry' "
        "ELSE 'Completed' END, "
        f"CASE kind WHEN 'dead' THEN {LIMIT} WHEN 'first' THEN 0 WHEN 'retried' THEN 2 ELSE 1 END, "
        f"IF(kind IN ('first', 'second'), later, created_at), {LIMIT}, 30000000, "
        "IF(kind IN ('dead', 'second', 'retried'), error, NULL), created_at, TIMESTAMPADD(SECOND, 120, created_at) "
        f"FROM (SELECT e.id, 1 + {number} MOD {sizes.subscriptions} AS subscription, e.created_at, {kind} AS kind, "
        f"{errors} AS error, {later} AS later FROM events e WHERE e.id > {low} AND e.id <= {high}) events ORDER BY id"
    )


def _jobs(low: int, high: int) -> None:
    succeeded = "(s.status = 'Completed' AND a.n = s.attempt_count)"
    attempts = "(SELECT 1 n UNION ALL SELECT 2 UNION ALL SELECT 3)"
    started = "TIMESTAMPADD(SECOND, 30 * a.n, s.created_at)"
    response = "IF(s.final_error_code LIKE 'http\\_%%', CAST(SUBSTR(s.final_error_code, 6) AS UNSIGNED), NULL)"
    execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, lease_until, attempt_at, response_status, "
        "error_code, worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, a.n, IF({succeeded}, 'Completed', 'Failed'), {started}, {started}, "
        f"IF({succeeded}, 200, {response}), IF({succeeded}, NULL, s.final_error_code), 'seed', 'token', 0, "
        f"IF({succeeded}, 'ok', 'failed'), 5 + s.id MOD 500, {started}, {started} "
        f"FROM webhook_delivery_sagas s JOIN {attempts} a ON a.n <= s.attempt_count "
        f"WHERE s.id > {low} AND s.id <= {high} ORDER BY s.id, a.n".replace("%%", "%")
    )


def _dead_letters(low: int, high: int) -> None:
    execute(
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
        "SELECT s.id, s.event_id, s.subscription_id, s.final_error_code, s.updated_at, e.payload "
        "FROM webhook_delivery_sagas s JOIN events e ON e.id = s.event_id "
        f"WHERE s.id > {low} AND s.id <= {high} AND s.status = 'DeadLettered' ORDER BY s.id"
    )


def _requeues(sizes: Sizes) -> None:
    """The oldest dead letters were requeued and then delivered."""
    if not sizes.requeued:
        return
    execute(
        "INSERT INTO dead_letter_requeues (dead_letter_id, requested_by, requested_at, reason, request_token, "
        "max_retry_limit, base_delay) "
        f"SELECT id, 'seed', TIMESTAMPADD(MINUTE, 5, failed_at), 'the endpoint works again', 'seed', {LIMIT}, 30000000 "
        f"FROM dead_letters ORDER BY id LIMIT {sizes.requeued}"
    )
    execute(
        "INSERT INTO webhook_delivery_sagas (event_id, subscription_id, generation, status, attempt_count, "
        "next_attempt_at, max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        f"SELECT d.event_id, d.subscription_id, 1, 'Completed', 1, r.requested_at, {LIMIT}, 30000000, NULL, "
        "r.requested_at, TIMESTAMPADD(MINUTE, 1, r.requested_at) "
        "FROM dead_letter_requeues r JOIN dead_letters d ON d.id = r.dead_letter_id ORDER BY r.id"
    )
    started = "TIMESTAMPADD(SECOND, 1, s.created_at)"
    execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, lease_until, attempt_at, response_status, "
        "error_code, worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, 1, 'Completed', {started}, {started}, 200, NULL, 'seed', 'token', 0, 'ok', 5, "
        f"{started}, {started} FROM webhook_delivery_sagas s "
        f"WHERE s.id > {sizes.sagas} AND s.generation = 1 ORDER BY s.id"
    )


def _stats() -> None:
    """The counters that the loops would have written for the last day."""
    execute(
        "INSERT INTO stats_periods (period, starts_at, subscription_id, shard, attempts, completed, dead_lettered, "
        "failed_5xx, duration_ms, within_100_ms) "
        "SELECT 'minute', DATE_FORMAT(j.finished_at, '%Y-%m-%d %H:%i:00'), s.subscription_id, 0, COUNT(*), "
        "SUM(j.status = 'Completed'), SUM(s.status = 'DeadLettered' AND j.attempt_no = s.attempt_count), "
        "SUM(j.status = 'Failed'), SUM(j.duration_ms), COUNT(*) "
        "FROM webhook_delivery_jobs j JOIN webhook_delivery_sagas s ON s.id = j.saga_id "
        "WHERE s.id > (SELECT MAX(id) * 6 DIV 7 FROM events) AND j.finished_at IS NOT NULL "
        "GROUP BY 2, 3"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.seed_bulk", description=__doc__)
    for name, value in Sizes().__dict__.items():
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=f"number of {name} ({value})")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    import django

    django.setup()
    from events.models import Event

    if Event.objects.exists():
        raise SystemExit("The database is not empty; it already has events.")
    sizes = Sizes(**vars(options))
    started = time.monotonic()
    seed(sizes, lambda text: print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True))
    print(
        f"{sizes.sagas} deliveries, about {sizes.jobs} attempts, {sizes.dead} dead letters "
        f"in {time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
