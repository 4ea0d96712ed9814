"""Scenario `floor`: the limit of the design on this machine, with the same statements in raw SQL and plain pycurl."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tools.bench import load, machine
from tools.bench.context import Context
from tools.bench.database import Server
from tools.bench.endpoint import duplicates
from tools.bench.pycurl_client import PycurlClient, delivery_request, headers
from tools.bench.results import Result, Spread, ratios
from tools.bench.scenarios.drain import DrainRun
from tools.bench.scenarios.floor_sql import Floor

TARGET = 0.8
BATCH = 500


@dataclass(frozen=True)
class FloorRun:
    """Deliveries per second, and microseconds per delivery: by stage, to publish its event, and of CPU in total."""

    rate: float
    stages: dict[str, float]
    publish: float
    cpu: float

    @property
    def rate_with_publishing(self) -> float:
        return 1e6 / (self.publish + sum(self.stages.values()))


def run(context: Context, deliveries: int) -> FloorRun:
    database = context.database()
    database.empty()
    floor, client = Floor(database, BATCH), PycurlClient(str(context.authorities))
    try:
        client.send([(url, headers("warm-up"), b"{}") for url in context.endpoint.urls * 20])
        context.endpoint.take()
        return _measure(context, database, floor, client, deliveries)
    finally:
        client.close()


def result(runs: list[FloorRun], drains: list[DrainRun]) -> Result:
    """Also compares with the runs of drain, if there are any."""
    result = Result("floor", data={"runs": [asdict(run) for run in runs]})
    result.add("deliveries/s", Spread.of([run.rate for run in runs]))
    for stage in runs[0].stages:
        result.add(f"µs per delivery, {stage}", Spread.of([run.stages[stage] for run in runs]))
    result.add("µs per event to publish it (not included)", Spread.of([run.publish for run in runs]))
    result.add("µs of CPU per delivery, total", Spread.of([run.cpu for run in runs]))
    if drains:
        rates = ratios([run.rate for run in drains], [run.rate for run in runs])
        result.at_least("drain ÷ floor, deliveries/s", rates, rates.median, TARGET)
        # On a busy machine, CPU time is the better measure.
        cpu = ratios([run.cpu for run in runs], [run.total_cpu for run in drains])
        result.add("floor ÷ drain, CPU per delivery", cpu)
        result.data |= {"drain_to_floor": asdict(rates), "floor_to_drain_cpu": asdict(cpu)}
    return result


def _measure(context: Context, database: Server, floor: Floor, client: PycurlClient, deliveries: int) -> FloorRun:
    started = time.perf_counter()
    batch = load.insert(database, deliveries)
    publish = time.perf_counter() - started
    seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] += time.perf_counter() - started

    pids = [os.getpid(), context.server.pid, context.endpoint.pid]
    cpu = machine.cpu_of(pids)
    settled = 0
    while settled < batch.deliveries:
        with stage("route"):
            floor.route()
        with stage("dispatch"):
            floor.dispatch()
        with stage("lease"):
            jobs = floor.lease()
        with stage("send"):
            client.send([delivery_request(job) for job in jobs])
        with stage("report"):
            floor.report(job[0] for job in jobs)
        with stage("settle"):
            settled += floor.settle()
    cpu = machine.cpu_of(pids) - cpu
    _check(context, database, batch.deliveries)
    per_delivery = 1e6 / batch.deliveries
    return FloorRun(
        rate=batch.deliveries / sum(seconds.values()),
        stages={name: value * per_delivery for name, value in seconds.items()},
        publish=publish * per_delivery,
        cpu=cpu * per_delivery,
    )


def _check(context: Context, database: Server, deliveries: int) -> None:
    """Asserts that everything was delivered and settled as by the hub."""
    arrivals = context.endpoint.take()
    assert (len(arrivals), duplicates(arrivals)) == (deliveries, 0)
    settled = (
        "SELECT COUNT(*) FROM webhook_delivery_sagas s JOIN webhook_delivery_jobs j ON j.saga_id = s.id "
        "WHERE s.status = 'Completed' AND s.attempt_count = 1 AND j.status = 'Completed' AND j.settled_at IS NOT NULL"
    )
    assert database.execute(settled) == [(deliveries,)]
