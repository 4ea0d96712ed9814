"""The limit of this design on this machine: its statements in raw SQL and bare pycurl, one after the other."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tools.bench import load, usage
from tools.bench.bare import Bare
from tools.bench.context import Context
from tools.bench.database import Server
from tools.bench.floor_sql import Floor, Row

BATCH = 500
# Nothing is signed here; what is sent is as long as if it were.
SIGNATURE = "webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="


@dataclass(frozen=True)
class FloorRun:
    """Microseconds of one delivery, by stage; of the publishing before it; and of CPU, the receiver's included."""

    rate: float
    stages: dict[str, float]
    publish: float
    cpu: float


def run(context: Context, deliveries: int, width: int = 1) -> FloorRun:
    database = context.database()
    database.empty()
    floor, bare = Floor(database, BATCH), Bare(str(context.authorities))
    try:
        bare.send([(url, _headers("warm-up"), b"{}") for url in context.echo.urls * 20])
        context.echo.take()
        return _measure(context, database, floor, bare, deliveries, width)
    finally:
        bare.close()


def _measure(context: Context, database: Server, floor: Floor, bare: Bare, deliveries: int, width: int) -> FloorRun:
    began = time.perf_counter()
    batch = load.insert(database, deliveries, width)
    publish = time.perf_counter() - began
    seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] += time.perf_counter() - started

    processes = [os.getpid(), context.server.pid, context.echo.pid]
    cpu = usage.cpu_of(processes)
    settled = 0
    while settled < batch.deliveries:
        with stage("route"):
            floor.route()
        with stage("dispatch"):
            floor.dispatch()
        with stage("lease"):
            jobs = floor.lease()
        with stage("send"):
            bare.send([_request(job) for job in jobs])
        with stage("report"):
            floor.report(job[0] for job in jobs)
        with stage("settle"):
            settled += floor.settle()
    cpu = usage.cpu_of(processes) - cpu
    _check(context, database, batch.deliveries)
    each = 1e6 / batch.deliveries
    return FloorRun(
        rate=batch.deliveries / sum(seconds.values()),
        stages={name: value * each for name, value in seconds.items()},
        publish=publish * each,
        cpu=cpu * each,
    )


def _headers(message_id: str) -> list[str]:
    return ["Content-Type: application/json", f"webhook-id: {message_id}", SIGNATURE]


def _request(job: Row) -> tuple[str, list[str], bytes]:
    _, uid, event_type, created_at, payload, url, *_ = job
    return url, _headers(uid), f'{{"type":"{event_type}","timestamp":"{created_at}","data":{payload}}}'.encode()


def _check(context: Context, database: Server, deliveries: int) -> None:
    """What is not delivered and settled like the hub's own does not count."""
    arrivals = context.echo.take()
    assert (len(arrivals), load.duplicates(arrivals)) == (deliveries, 0)
    done = "SELECT COUNT(*) FROM webhook_delivery_sagas s JOIN webhook_delivery_jobs j ON j.saga_id = s.id "
    done += (
        "WHERE s.status = 'Completed' AND s.attempt_count = 1 AND j.status = 'Completed' AND j.settled_at IS NOT NULL"
    )
    assert database.execute(done) == [(deliveries,)]
