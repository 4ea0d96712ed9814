"""Scenario `isolation`: what one bad endpoint, or a burst for one endpoint, does to the deliveries of fifty others.

`run_hub` with its default settings. The fifty healthy endpoints get two events per second each, all the time. Their
latency is measured without anything else (the baseline of the case) and during the case. Waiting deliveries are
inserted by SQL, due, while the hub is stopped: the hub itself has to park them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from tools.bench import hub, load, machine, names
from tools.bench.context import ROOT, Context
from tools.bench.database import INBOX, JOBS, NUMBERS, SAGAS
from tools.bench.endpoint import PATH, Endpoint, duplicates
from tools.bench.results import Result, percentile
from tools.support.ports import free_port

HEALTHY = 50
RATE = 2  # events per second of each
HEALTHY_TYPES = [f"healthy.{number}" for number in range(HEALTHY)]
# Event types of the other endpoints.
ONE, REFUSING = "other.0", "other.refusing"
# Healthy endpoints with a name, and others whose names hang in DNS, with a few deliveries each.
NAMED, HANGING_NAMES, WAITING_FOR_NAME = 10, 150, 20
NAMED_TYPES = [f"named.{number}" for number in range(NAMED)]
UNRESOLVED_TYPES = [f"unresolved.{number}" for number in range(HANGING_NAMES)]
# Rows per INSERT … SELECT.
ROWS = 50_000
# Retries within the run would hide what the case measures.
RETRY_LIMIT, BASE_DELAY = 10, 600_000_000
# At first, each endpoint needs a new connection: events of this time are not counted.
WARM_UP_SECONDS = 3.0
# How long the last healthy events of a measurement may take.
ARRIVAL_SECONDS = 120.0
# What the endpoint of the case `resume` responds to, per second, and which share of this has to arrive.
CAPACITY, CAPACITY_SHARE = 100, 0.8
# Its deliveries begin with a probe and a small window.
GROWTH_SECONDS = 5.0
IDLE_RATIO = 1.2
# An endpoint that only fails is probed at least once in this time.
PROBE_SECONDS = 90.0
LOG_RATIO, MEMORY_RATIO = 2.0, 1.25
PARKED = "'9000-01-01'"


@dataclass(frozen=True)
class Period:
    """A measurement of the healthy endpoints, and of the hub in the same time."""

    name: str
    p50: float
    p95: float
    slowest: float
    lost: int
    duplicates: int
    memory_mb: float
    log_kb_per_second: float
    # Of the hub and its database. Other programs on the machine change it less than they change latencies.
    cpu_ms_per_event: float


def run(context: Context) -> Result:
    result = Result("isolation")
    chosen = [name for name in CASES if not context.options.parts or name in context.options.parts]
    with context.extra_endpoint(HEALTHY) as healthy, context.extra_endpoint(context.sizes.hanging) as others:
        bench = Bench(context, healthy, others, result)
        for name in context.within(chosen):
            CASES[name](bench)
    return result


class Bench:
    def __init__(self, context: Context, healthy: Endpoint, others: Endpoint, result: Result) -> None:
        self.context = context
        self.sizes = context.sizes
        self.healthy = healthy
        self.others = others
        self._result = result
        self.database = context.database("isolation")
        urls = dict(zip(HEALTHY_TYPES, healthy.urls, strict=True))
        urls |= {f"other.{number}": url for number, url in enumerate(others.urls)}
        urls |= {
            event_type: f"https://ok-{number}.{names.DOMAIN}:{healthy.ports[number]}{PATH}"
            for number, event_type in enumerate(NAMED_TYPES)
        }
        urls |= {
            event_type: f"https://hang-{number}.{names.DOMAIN}:{healthy.ports[0]}{PATH}"
            for number, event_type in enumerate(UNRESOLVED_TYPES)
        }
        urls[REFUSING] = f"https://127.0.0.1:{free_port()}/"
        subscriptions = [f"{event_type}={url}" for event_type, url in urls.items()]
        done = context.call("-m", "tools.bench.prepare_database", *subscriptions, url=self.database.url)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Without deliveries of an earlier case."""
        self.database.empty()
        self.set_active(ONE, active=True)
        self.others.hang(False)
        self.others.rate(0)
        self.others.take()

    @contextmanager
    def running(self, *, warm: bool = False, environment: Mapping[str, str] | None = None) -> Iterator[hub.Hub]:
        variables = {"WEBHOOKHUB_LOG_LEVEL": "INFO", **(environment or {})}
        with hub.supervised(self.context, self.database, warm=warm, **variables) as loops:
            yield loops

    def baseline(
        self, case: str, types: Sequence[str] = HEALTHY_TYPES, environment: Mapping[str, str] | None = None
    ) -> Period:
        """The faster of two measurements: the first one may be slow after the tables were emptied."""
        with self.running(warm=True, environment=environment) as loops:
            periods = [self.measure(f"{case}: baseline", loops, types) for _ in range(2)]
            return min(periods, key=lambda period: period.p95)

    def measure(self, name: str, loops: hub.Hub, types: Sequence[str] = HEALTHY_TYPES) -> Period:
        """Publishes to the healthy endpoints for some seconds, and waits for all of these events."""
        self.healthy.take()
        started, logged = time.monotonic(), loops.log_bytes()
        usage = machine.CpuUsage(loops.pids() | {"database": [self.context.server.pid]})
        published = self._publish(types)
        with suppress(load.Stalled):  # counted as lost
            load.wait_until(lambda: self.healthy.counts().received, len(published), loops.check_alive, ARRIVAL_SECONDS)
        cpu = sum(usage.used().values())
        arrivals = self.healthy.take()
        at = {arrival.message_id: arrival.at for arrival in reversed(arrivals)}
        counted_from = min(due for _, due, _ in published) + WARM_UP_SECONDS
        latencies = [at[uid] - due for uid, due, _ in published if uid in at and due >= counted_from]
        seconds = time.monotonic() - started
        period = Period(
            name,
            percentile(latencies, 50),
            percentile(latencies, 95),
            max(latencies),
            len(published) - len(at),
            duplicates(arrivals),
            machine.tree_memory_mb(loops.pids()["hub"][0]),
            (loops.log_bytes() - logged) / seconds / 1000,
            cpu * 1000 / len(published),
        )
        self._report(period)
        return period

    def _publish(self, types: Sequence[str]) -> list[tuple[str, float, float]]:
        seconds = WARM_UP_SECONDS + self.sizes.isolation_seconds
        arguments = [str(HEALTHY * RATE), str(seconds), "--types", *types]
        command = [sys.executable, "-m", "tools.bench.publisher", *arguments]
        environment = self.context.environment(self.database.url)
        done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        published: list[tuple[str, float, float]] = json.loads(done.stdout)
        return published

    def _report(self, period: Period) -> None:
        self._result.add(
            f"{period.name}: ms to the endpoint",
            f"p50 {period.p50 * 1000:.0f}, p95 {period.p95 * 1000:.0f}, slowest {period.slowest * 1000:.0f}, "
            f"hub {period.memory_mb:.0f} MB, log {period.log_kb_per_second:.1f} kB/s, "
            f"CPU {period.cpu_ms_per_event:.1f} ms per event",
        )
        print(self._result.lines[-1].name, self._result.lines[-1].value, file=sys.stderr, flush=True)
        self._result.data.setdefault("periods", []).append(asdict(period))
        if period.lost or period.duplicates:
            self._result.failed = True
            self._result.add(f"{period.name}: lost, duplicated", f"{period.lost}, {period.duplicates}")

    def compare(self, period: Period, baseline: Period, target: float) -> None:
        for name, ours, theirs, limit in (
            ("p95", period.p95, baseline.p95, target),
            ("memory", period.memory_mb, baseline.memory_mb, MEMORY_RATIO),
        ):
            self._result.at_most(f"{period.name}: {name} ÷ baseline", f"{ours / theirs:.2f}", ours / theirs, limit)

    def at_least(self, name: str, value: float, target: float) -> None:
        self._result.at_least(name, f"{value:.2f}", value, target)

    def at_most(self, name: str, value: float, target: float) -> None:
        self._result.at_most(name, f"{value:.2f}", value, target)

    def add(self, name: str, value: object) -> None:
        self._result.add(name, value)

    def set_active(self, event_type: str, *, active: bool) -> None:
        self.database.execute("UPDATE subscriptions SET active = %s WHERE event_type = %s", [active, event_type])

    def seed(
        self, event_type: str, count: int, next_attempt_at: str = "UTC_TIMESTAMP(6)", *, analyze: bool = True
    ) -> None:
        """Deliveries that wait for their first attempt, as the router would have left them."""
        [(subscription,)] = self.database.execute("SELECT id FROM subscriptions WHERE event_type = %s", [event_type])
        for start in range(0, count, ROWS):
            rows = min(ROWS, count - start)
            [(after,)] = self.database.execute("SELECT COALESCE(MAX(id), 0) FROM events")
            self.database.execute("BEGIN")
            self.database.execute(
                "INSERT INTO events (uid, event_type, source, correlation_id, payload) "
                f"SELECT CONCAT(SUBSTR(hash, 1, 12), '7', SUBSTR(hash, 13, 3), '8', SUBSTR(hash, 16, 15)), "
                "%s, 'bench', CONCAT('waiting-', n), %s "
                f"FROM (SELECT n, SHA2(CONCAT(%s, n), 256) AS hash FROM {NUMBERS} WHERE n < {rows}) numbers ORDER BY n",
                [event_type, load.PAYLOAD, f"{event_type}-{after}-"],
            )
            self.database.execute(f"DELETE FROM {INBOX} WHERE event_id > {after}")
            self.database.execute(
                f"INSERT INTO {SAGAS} (event_id, subscription_id, generation, status, attempt_count, "
                "next_attempt_at, max_retry_limit, base_delay) "
                f"SELECT id, {subscription}, 0, 'Pending', 0, {next_attempt_at}, {RETRY_LIMIT}, {BASE_DELAY} "
                f"FROM events WHERE id > {after} ORDER BY id"
            )
            self.database.execute("COMMIT")
        if analyze:
            self.database.execute(f"ANALYZE TABLE events, {SAGAS}")

    def wait_until_parked(self, loops: hub.Hub) -> None:
        """Until no delivery is due; reports how long it took."""
        started = time.monotonic()
        due = f"SELECT COUNT(*) FROM (SELECT id FROM {SAGAS} WHERE status = 'Pending' AND next_attempt_at < {{}}) due"
        load.wait_until(
            lambda: int(not self.database.execute(due.format("UTC_TIMESTAMP(6) - INTERVAL 2 SECOND"))[0][0]),
            1,
            loops.check_alive,
            3600.0,
        )
        self.add("s until all were parked, after the first period", f"{time.monotonic() - started:.1f}")

    def audit(self, case: str) -> None:
        done = self.context.call("manage.py", "audit", url=self.database.url)
        if done.returncode:
            self._result.failed = True
            self.add(f"{case}: audit", done.stdout[-2000:] + done.stderr[-2000:])


def hanging(bench: Bench) -> None:
    """One endpoint hangs; then it is paused; then it responds again and is resumed."""
    count = bench.sizes.waiting
    name = f"{count:,} wait for one that hangs"
    bench.start()
    baseline = bench.baseline(name)
    bench.others.hang(True)
    bench.seed(ONE, count)
    with bench.running() as loops:
        bench.compare(bench.measure(f"{name}, at first", loops), baseline, 1.5)
        bench.wait_until_parked(loops)
        bench.compare(bench.measure(f"{name}, parked", loops), baseline, 1.5)
        bench.set_active(ONE, active=False)
        bench.compare(bench.measure(f"{count:,} wait for one that is paused", loops), baseline, 1.1)
        bench.others.hang(False)
        bench.others.rate(CAPACITY)
        bench.others.take()
        bench.set_active(ONE, active=True)
        load.wait_until(lambda: bench.others.counts().received, 1, loops.check_alive, PROBE_SECONDS)
        time.sleep(GROWTH_SECONDS)
        started, before = time.monotonic(), bench.others.counts().received
        bench.compare(bench.measure(f"resume of {count:,}", loops), baseline, 1.3)
        rate = (bench.others.counts().received - before) / (time.monotonic() - started)
        bench.at_least(f"resume of {count:,}: share of what the endpoint can take", rate / CAPACITY, CAPACITY_SHARE)
        bench.add("deliveries to it that arrived twice", duplicates(bench.others.take()))
    bench.audit(name)


def many_hanging(bench: Bench) -> None:
    count = bench.sizes.hanging_waiting
    name = f"{count:,} wait for each of {bench.sizes.hanging} that hang"
    bench.start()
    baseline = bench.baseline(name)
    bench.others.hang(True)
    for number in range(bench.sizes.hanging):
        bench.seed(f"other.{number}", count)
    with bench.running() as loops:
        bench.compare(bench.measure(f"{name}, at first", loops), baseline, 1.5)
        bench.wait_until_parked(loops)
        bench.compare(bench.measure(f"{name}, parked", loops), baseline, 1.5)
    bench.audit(name)


def burst(bench: Bench) -> None:
    """Measured from the first event of the burst, for as long as it lasts or the time of a measurement."""
    count = bench.sizes.burst
    name = f"burst of {count:,}"
    bench.start()
    baseline = bench.baseline(name)
    bench.others.take()
    environment = bench.context.environment(bench.database.url)
    with bench.running(warm=True) as loops:
        started = time.monotonic()
        command = [sys.executable, "-m", "tools.bench.burst", ONE, str(count)]
        with subprocess.Popen(command, env=environment, cwd=ROOT) as publishing:
            period = bench.measure(name, loops)
            publishing.wait()
        assert publishing.returncode == 0
        bench.compare(period, baseline, 3.0)
        arrived = bench.others.counts().received
        bench.add(f"{name}: delivered meanwhile, per second", f"{arrived / (time.monotonic() - started):.0f}")
        load.wait_until(lambda: bench.others.counts().received, count, loops.check_alive)
        bench.add(f"{name}: s until all have arrived", f"{time.monotonic() - started:.0f}")
        bench.add(f"{name}: arrived twice", duplicates(bench.others.take()))
    bench.audit(name)
    bench.start()
    with bench.running(warm=True) as loops:
        bench.others.take()
        started = time.monotonic()
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
        load.wait_until(lambda: bench.others.counts().received, count, loops.check_alive)
        bench.add(f"{name}, alone: s until all have arrived", f"{time.monotonic() - started:.0f}")


def refusing(bench: Bench) -> None:
    count = bench.sizes.refusing
    name = f"{count:,} wait for one that refuses"
    bench.start()
    baseline = bench.baseline(name)
    bench.seed(REFUSING, count)
    with bench.running() as loops:
        bench.compare(bench.measure(f"{name}, at first", loops), baseline, 1.3)
        bench.wait_until_parked(loops)
        bench.compare(bench.measure(f"{name}, parked", loops), baseline, 1.3)
    bench.audit(name)


def hanging_names(bench: Bench) -> None:
    """Most names hang in DNS; the others are those of healthy endpoints, and none of their attempts may fail."""
    name = f"{HANGING_NAMES} of {HANGING_NAMES + NAMED} names hang"
    environment = names.write(bench.context.folder)
    bench.start()
    baseline = bench.baseline(name, NAMED_TYPES, environment)
    for event_type in UNRESOLVED_TYPES:
        bench.seed(event_type, WAITING_FOR_NAME, analyze=False)
    with bench.running(environment=environment) as loops:
        for time_of in ("at first", "later"):
            bench.compare(bench.measure(f"{name}, {time_of}", loops, NAMED_TYPES), baseline, 1.5)
    [(failed,)] = bench.database.execute(
        f"SELECT COUNT(*) FROM {JOBS} job JOIN {SAGAS} saga ON saga.id = job.saga_id "
        "JOIN subscriptions ON subscriptions.id = saga.subscription_id "
        "WHERE job.status = 'Failed' AND event_type LIKE 'named.%'"
    )
    bench.at_most(f"{name}: failed attempts of healthy endpoints", failed, 0)
    bench.audit(name)


def idle(bench: Bench) -> None:
    """CPU of the hub and its database, without events."""
    count = bench.sizes.idle_waiting
    bench.start()
    empty = _idle_cpu(bench)
    bench.others.hang(True)
    bench.seed(ONE, count, PARKED)
    waiting = _idle_cpu(bench)
    for kind, cpu in waiting.items():
        bench.add(f"{count:,} wait, no events: % of a core, {kind}", f"{cpu:.2f}, empty {empty[kind]:.2f}")
    ratio = sum(waiting.values()) / sum(empty.values())
    bench.at_most(f"{count:,} wait, no events: CPU ÷ that of an empty hub", ratio, IDLE_RATIO)
    bench.audit("idle")


def _idle_cpu(bench: Bench) -> dict[str, float]:
    """% of a core."""
    seconds = bench.sizes.isolation_seconds
    with bench.running(warm=True) as loops:
        time.sleep(GROWTH_SECONDS)
        usage = machine.CpuUsage(loops.pids() | {"database": [bench.context.server.pid]})
        time.sleep(seconds)
        return {kind: cpu / seconds * 100 for kind, cpu in usage.used().items()}


CASES: dict[str, Callable[[Bench], None]] = {
    "hanging": hanging,
    "many": many_hanging,
    "burst": burst,
    "refusing": refusing,
    "names": hanging_names,
    "parked": idle,
}
NAMES = tuple(CASES)
