"""Fills an empty, migrated database with millions of legal rows, by the server's own INSERT … SELECT.

    DATABASE_URL=mysql://… python -m tools.bench.seed_bulk --sagas 5000000 --dead 100000

No part of the product: it goes around publish() and the loops, but `manage.py audit` finds nothing to complain of.
One event for each saga's subscription: events carry the types that exactly one subscription each wants.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tools.support import guards

PART = 50_000
LIMIT = 3
# How the deliveries are spread over time: the last of them ended a minute ago.
SPAN_SECONDS = 7 * 24 * 3600
ERRORS = ("http_500", "http_503", "timeout", "connect_error", "dns_error", "http_404", "tls_error", "http_410")
SOURCES = ("shop", "billing", "warehouse")


@dataclass(frozen=True)
class Sizes:
    sagas: int = 5_000_000
    dead: int = 100_000
    # Deliveries that failed once before they came through: each has a second job.
    retried: int = 800_000
    # Deliveries still under way: half of them due later, half waiting for their first attempt.
    waiting: int = 10_000
    requeued: int = 10_000
    subscriptions: int = 200

    def __post_init__(self) -> None:
        finished = self.dead + self.retried + self.waiting
        if finished > self.sagas or self.requeued > self.dead or self.subscriptions < 1:
            raise ValueError("dead, retried and waiting are part of the sagas, requeued are part of the dead")

    @property
    def jobs(self) -> int:
        """One an attempt: three for each dead one, two for the retried, none or one for those that wait."""
        plain = self.sagas - self.dead - self.retried - self.waiting
        return plain + LIMIT * self.dead + 2 * self.retried + self.waiting // 2


Say = Callable[[str], None]


def seed(sizes: Sizes, say: Say = lambda text: None) -> None:
    from django.db import connection

    with guards.switched_off():
        _seed(sizes, say)
    tables = "events, subscriptions, webhook_delivery_sagas, webhook_delivery_jobs, dead_letters, stats_periods"
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE TABLE {tables}")
        cursor.fetchall()


def _seed(sizes: Sizes, say: Say) -> None:
    _subscriptions(sizes)
    _numbers()
    for low in range(0, sizes.sagas, PART):
        high = min(low + PART, sizes.sagas)
        _events(sizes, low, high)
        _sagas(sizes, low, high)
        _jobs(low, high)
        _dead_letters(low, high)
        say(f"{high} of {sizes.sagas} sagas")
    _requeues(sizes)
    _figures()
    _execute("DROP TABLE seed_numbers")


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
    # Before all events: every one of them has been routed to the subscription of its type.
    before = f"UTC_TIMESTAMP(6) - INTERVAL {SPAN_SECONDS * 2} SECOND"
    _execute(f"UPDATE subscriptions SET verified = 1, verification_at = {before}, updated_at = {before}")


def _numbers() -> None:
    _execute("CREATE TABLE seed_numbers (n INT PRIMARY KEY)")
    digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {digit}" for digit in range(1, 10)) + ")"
    _execute(
        "INSERT INTO seed_numbers SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d AS n "
        f"FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f HAVING n < {PART}"
    )


def _events(sizes: Sizes, low: int, high: int) -> None:
    step = SPAN_SECONDS / sizes.sagas
    start = f"UTC_TIMESTAMP(6) - INTERVAL {SPAN_SECONDS + 600} SECOND"
    number = f"({low} + n)"
    # As the hub makes them: they begin with the time, so that the newest stand together in the index.
    random = f"SHA2({number}, 256)"
    parts = f"'7', SUBSTR({random}, 1, 3), '8', SUBSTR({random}, 4, 3), SUBSTR({random}, 7, 12)"
    uid = f"CONCAT(LPAD(HEX({number}), 12, '0'), {parts})"
    sources = _one_of(SOURCES, number)
    _execute(
        "INSERT INTO events (id, uid, event_type, source, external_id, correlation_id, payload, created_at) "
        f"SELECT {number} + 1, {uid}, CONCAT('order.type', {number} MOD {sizes.subscriptions}), "
        f"{sources}, CONCAT('order-', {number}), CONCAT('correlation-', {number} DIV 3), "
        f"CONCAT('{{\"order\":', {number}, ',\"customer\":\"c-', {number} MOD 1000, '\"}}'), "
        f"TIMESTAMPADD(MICROSECOND, {number} * {step * 1e6:.3f}, {start}) "
        f"FROM seed_numbers WHERE n < {high - low}"
    )
    _execute(f"DELETE FROM routing_inbox WHERE event_id > {low} AND event_id <= {high}")


def _one_of(words: tuple[str, ...], number: str) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"ELT(1 + {number} MOD {len(words)}, {listed})"


def _spread(count: int, total: int, number: str) -> str:
    """True for `count` of `total` consecutive numbers, evenly."""
    return f"(({number} + 1) * {count} DIV {total} > {number} * {count} DIV {total})"


def _sagas(sizes: Sizes, low: int, high: int) -> None:
    number = "(e.id - 1)"
    rest = sizes.sagas - sizes.dead
    dead = _spread(sizes.dead, sizes.sagas, number)
    # The newest ones wait; of the others, those that are not dead came through at once or at the second attempt.
    waits = f"(e.id > {sizes.sagas - sizes.waiting} AND NOT {dead})"
    retried = _spread(sizes.retried, max(1, rest), number)
    kind = (
        f"CASE WHEN {dead} THEN 'dead' WHEN {waits} THEN IF(e.id MOD 2, 'first', 'second') "
        f"WHEN {retried} THEN 'retried' ELSE 'plain' END"
    )
    errors = _one_of(ERRORS, "e.id DIV 7")
    later = "UTC_TIMESTAMP(6) + INTERVAL (30 + e.id MOD 86400) SECOND"
    _execute(
        "INSERT INTO webhook_delivery_sagas (id, event_id, subscription_id, generation, status, attempt_count, "
        "next_attempt_at, max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        "SELECT id, id, subscription, 0, "
        "CASE kind WHEN 'dead' THEN 'DeadLettered' WHEN 'first' THEN 'Pending' WHEN 'second' THEN 'PendingRetry' "
        "ELSE 'Completed' END, "
        f"CASE kind WHEN 'dead' THEN {LIMIT} WHEN 'first' THEN 0 WHEN 'retried' THEN 2 ELSE 1 END, "
        f"IF(kind IN ('first', 'second'), later, created_at), {LIMIT}, 30000000, "
        "IF(kind IN ('dead', 'second', 'retried'), error, NULL), created_at, TIMESTAMPADD(SECOND, 120, created_at) "
        f"FROM (SELECT e.id, 1 + {number} MOD {sizes.subscriptions} AS subscription, e.created_at, {kind} AS kind, "
        f"{errors} AS error, {later} AS later FROM events e WHERE e.id > {low} AND e.id <= {high}) given ORDER BY id"
    )


def _jobs(low: int, high: int) -> None:
    succeeded = "(s.status = 'Completed' AND a.n = s.attempt_count)"
    attempts = "(SELECT 1 n UNION ALL SELECT 2 UNION ALL SELECT 3)"
    begun = "TIMESTAMPADD(SECOND, 30 * a.n, s.created_at)"
    answered = "IF(s.final_error_code LIKE 'http\\_%%', CAST(SUBSTR(s.final_error_code, 6) AS UNSIGNED), NULL)"
    _execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, lease_until, attempt_at, response_status, "
        "error_code, worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, a.n, IF({succeeded}, 'Completed', 'Failed'), {begun}, {begun}, "
        f"IF({succeeded}, 200, {answered}), IF({succeeded}, NULL, s.final_error_code), 'seed', 'token', 0, "
        f"IF({succeeded}, 'ok', 'failed'), 5 + s.id MOD 500, {begun}, {begun} "
        f"FROM webhook_delivery_sagas s JOIN {attempts} a ON a.n <= s.attempt_count "
        f"WHERE s.id > {low} AND s.id <= {high} ORDER BY s.id, a.n".replace("%%", "%")
    )


def _dead_letters(low: int, high: int) -> None:
    _execute(
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, final_error_code, failed_at, payload_snapshot) "
        "SELECT s.id, s.event_id, s.subscription_id, s.final_error_code, s.updated_at, e.payload "
        "FROM webhook_delivery_sagas s JOIN events e ON e.id = s.event_id "
        f"WHERE s.id > {low} AND s.id <= {high} AND s.status = 'DeadLettered' ORDER BY s.id"
    )


def _requeues(sizes: Sizes) -> None:
    """The oldest dead letters were requeued, and came through then."""
    if not sizes.requeued:
        return
    _execute(
        "INSERT INTO dead_letter_requeues (dead_letter_id, requested_by, requested_at, reason, request_token) "
        "SELECT id, 'seed', TIMESTAMPADD(MINUTE, 5, failed_at), 'the endpoint is mended', 'seed' "
        f"FROM dead_letters ORDER BY id LIMIT {sizes.requeued}"
    )
    _execute(
        "INSERT INTO webhook_delivery_sagas (event_id, subscription_id, generation, status, attempt_count, "
        "next_attempt_at, max_retry_limit, base_delay, final_error_code, created_at, updated_at) "
        f"SELECT d.event_id, d.subscription_id, 1, 'Completed', 1, r.requested_at, {LIMIT}, 30000000, NULL, "
        "r.requested_at, TIMESTAMPADD(MINUTE, 1, r.requested_at) "
        "FROM dead_letter_requeues r JOIN dead_letters d ON d.id = r.dead_letter_id ORDER BY r.id"
    )
    begun = "TIMESTAMPADD(SECOND, 1, s.created_at)"
    _execute(
        "INSERT INTO webhook_delivery_jobs (saga_id, attempt_no, status, lease_until, attempt_at, response_status, "
        "error_code, worker_id, lease_token, lease_resets, response_snippet, duration_ms, finished_at, settled_at) "
        f"SELECT s.id, 1, 'Completed', {begun}, {begun}, 200, NULL, 'seed', 'token', 0, 'ok', 5, {begun}, {begun} "
        f"FROM webhook_delivery_sagas s WHERE s.id > {sizes.sagas} AND s.generation = 1 ORDER BY s.id"
    )


def _figures() -> None:
    """What the loops would have counted of the last day by minute, for as many subscriptions as are busy."""
    _execute(
        "INSERT INTO stats_periods (period, starts_at, subscription_id, shard, attempts, completed, dead_lettered, "
        "failed_5xx, duration_ms, within_100_ms) "
        "SELECT 'minute', DATE_FORMAT(j.finished_at, '%Y-%m-%d %H:%i:00'), s.subscription_id, 0, COUNT(*), "
        "SUM(j.status = 'Completed'), SUM(s.status = 'DeadLettered' AND j.attempt_no = s.attempt_count), "
        "SUM(j.status = 'Failed'), SUM(j.duration_ms), COUNT(*) "
        "FROM webhook_delivery_jobs j JOIN webhook_delivery_sagas s ON s.id = j.saga_id "
        "WHERE s.id > (SELECT MAX(id) * 6 DIV 7 FROM events) AND j.finished_at IS NOT NULL "
        "GROUP BY 2, 3"
    )


def _execute(sql: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.seed_bulk", description=__doc__)
    for name, value in Sizes().__dict__.items():
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=f"how many ({value})")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    import django

    django.setup()
    from events.models import Event

    if Event.objects.exists():
        raise SystemExit("The database has events already: this is for an empty one only.")
    sizes = Sizes(**vars(options))
    started = time.monotonic()
    seed(sizes, lambda text: print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True))
    print(
        f"{sizes.sagas} sagas, about {sizes.jobs} jobs, {sizes.dead} dead letters: {time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
