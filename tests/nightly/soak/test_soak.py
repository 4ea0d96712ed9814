"""A hub that runs for long, with restarts of its database: memory, connections, files and log volume stay flat.

SOAK_SECONDS (600) is the length, with a database restart every sixth of it; SOAK_RATE (20) the events per second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.failover.measured import Outage
from tools.failover.site import Site, describe, note
from tools.support.database_server import NoServer, PrivateServer
from tools.support.network import LocalHost
from tools.support.ports import free_port
from tools.torture.database import DURABLE, ServerDatabase

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
pytestmark = pytest.mark.timeout(SECONDS + 400)

RATE = float(os.environ.get("SOAK_RATE", "20"))
# The product's defaults: the torture's are smaller, so that more happens.
DEFAULTS = {
    "WEBHOOKHUB_REQUESTS_PER_HOST": "20",
    "WEBHOOKHUB_WORKER_CONCURRENCY": "250",
    "WEBHOOKHUB_BATCH_SIZE": "500",
}
RESTARTS = 5
# Between the second and the last sample. An hour without faults stays within 3 MB.
MEMORY_BYTES = 5 * 1024 * 1024
# Connections to the endpoint, most of which are opened after an outage.
FILES = 8
CONNECTIONS = 4
# Bytes of log per event.
LOG_SHARE = 1.05
# Of the events that the producer is to send while it can.
RATE_SHARE = 0.98


@dataclass(frozen=True)
class Sample:
    memory: int
    files: int
    connections: int
    log_bytes: int
    events: int

    def __str__(self) -> str:
        return (
            f"{self.memory / 2**20:.1f} MB, {self.files} files, {self.connections} connections, "
            f"{self.log_bytes / max(1, self.events):.0f} bytes of log per event, {self.events} events"
        )


@pytest.fixture
def server() -> Iterator[PrivateServer]:
    try:
        private = PrivateServer(DURABLE)
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as running:
        yield running


def processes_of(pid: int) -> list[int]:
    """The process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in processes_of(int(child)))]


def memory_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1]) * 1024


def sample(site: Site) -> Sample:
    pids = [pid for name in ("web", "loops") for pid in processes_of(site.running[name].pid)]
    [(events,)] = site.database.rows("SELECT COUNT(*) FROM events")
    return Sample(
        memory=sum(map(memory_of, pids)),
        files=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        connections=len(site.database.connections()),
        log_bytes=sum((site.folder / "logs" / f"{name}.log").stat().st_size for name in ("web", "loops")),
        events=events,
    )


def test_nothing_grows(server: PrivateServer, tmp_path: Path):
    host = LocalHost()
    with Site(tmp_path / "site", ServerDatabase(server), server.url(), **DEFAULTS) as site:
        site.prepare(host, host)
        site.start_loops("loops", host)
        url = site.start_web("web", host, free_port(), free_port())
        site.start_producer("one", host, url, RATE)
        samples: list[Sample] = []
        outages: list[Outage] = []
        started_at = time.monotonic()
        for number in range(1, RESTARTS + 2):
            time.sleep(max(0.0, started_at + number * SECONDS / (RESTARTS + 1) - time.monotonic()))
            samples.append(sample(site))
            note(f"{time.monotonic() - started_at:6.0f} s: {samples[-1]}")
            if number <= RESTARTS:
                outages.append(site.fault(f"restart {number}", server.stop, server.start, 1.0))
                note(outages[-1])
        site.stop("producer-one")
        assert describe(site.judge(host)) == ""
        site.stop("web", "loops")

    _, second, *_, last = samples
    assert last.events > RATE_SHARE * RATE * (SECONDS - sum(outage.ingest for outage in outages))
    assert last.memory - second.memory < MEMORY_BYTES
    assert last.files - second.files <= FILES
    assert last.connections - second.connections <= CONNECTIONS
    share = (last.log_bytes - second.log_bytes) / (last.events - second.events)
    assert share < LOG_SHARE * second.log_bytes / second.events
