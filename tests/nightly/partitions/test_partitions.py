"""Hosts in network namespaces that are cut off from each other while events come in bursts: nothing is lost, deliveries
go on, and the torture's judge finds nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.failover.measured import Outage
from tools.failover.servers import HostServer
from tools.failover.site import Site, SocketDatabase, describe
from tools.support.database_server import NoServer
from tools.support.network import BOTH, DROP, IN, OUT, REJECT, Network, NoNetwork, require
from tools.torture import journal
from webhookhub.stats import counters

pytestmark = pytest.mark.timeout(900)

RATE, BURST = 5, 10
CUT_SECONDS = 8.0
# Of a connection on which nothing arrives: 5 s in a loop, 15 s in the web server, and a pause before the next try.
LOOP_SECONDS, WEB_SECONDS = 5.0, 15.0
PAUSE_SECONDS = 8.0
LEASES = 2 * 16  # of both workers together: the requests that can be in flight
ONE_HOST = "one of two hosts with loops, and the database"
ALL_LOOPS = "all loops and the database"
WORKERS = "workers and the endpoint"
WEB = "the web server and the database"
# The longest time without a delivery and without an accepted event. While one host is cut off, the other goes on.
LONGEST = {
    ONE_HOST: (LOOP_SECONDS + PAUSE_SECONDS, PAUSE_SECONDS),
    ALL_LOOPS: (CUT_SECONDS + LOOP_SECONDS + PAUSE_SECONDS, PAUSE_SECONDS),
    WORKERS: (CUT_SECONDS + LOOP_SECONDS + PAUSE_SECONDS, PAUSE_SECONDS),
    WEB: (CUT_SECONDS + WEB_SECONDS + PAUSE_SECONDS, CUT_SECONDS + WEB_SECONDS + PAUSE_SECONDS),
}
WAYS = [(BOTH, DROP), (IN, DROP), (OUT, DROP), (BOTH, REJECT)]


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        require()
    except NoNetwork as reason:
        pytest.skip(str(reason))
    with Network("database", "web", "loops-a", "loops-b", "endpoint", "client") as running:
        yield running


@pytest.fixture
def server(network: Network) -> Iterator[HostServer]:
    try:
        private = HostServer(network["database"])
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as running:
        assert isinstance(running, HostServer)
        yield running


@pytest.fixture
def site(network: Network, server: HostServer, tmp_path: Path) -> Iterator[Site]:
    database = SocketDatabase(lambda: server.socket)
    with Site(tmp_path / "site", database, server.url()) as running:
        running.prepare(network["endpoint"], network["web"])
        yield running


def test_nothing_is_lost_while_hosts_are_cut_off(site: Site, network: Network):
    for name in ("loops-a", "loops-b"):
        site.start_loops(name, network[name])
    url = site.start_web("web", network["web"])
    site.wait_for(lambda: site.probe(network["web"], "/readyz") == 200, "the hub is ready")
    site.start_producer("one", network["client"], url, RATE, BURST)
    database, endpoint, loops = network["database"], network["endpoint"], [network["loops-a"], network["loops-b"]]
    time.sleep(3)
    outages = []
    for direction, how in WAYS:

        def all_loops(direction: str = direction, how: str = how) -> None:
            for host in loops:
                host.cut(database, direction=direction, how=how)

        def all_workers(direction: str = direction, how: str = how) -> None:
            for host in loops:
                host.cut(endpoint, direction=direction, how=how)

        def heal() -> None:
            for host in network.hosts.values():
                host.heal()

        def one_host(direction: str = direction, how: str = how) -> None:
            loops[0].cut(database, direction=direction, how=how)

        def web(direction: str = direction, how: str = how) -> None:
            network["web"].cut(database, direction=direction, how=how)

        for name, cut in (
            (ONE_HOST, one_host),
            (ALL_LOOPS, all_loops),
            (WORKERS, all_workers),
            (WEB, web),
        ):
            outages.append(site.fault(f"{name}: {how}, {direction}", cut, heal, CUT_SECONDS))
    report(outages)
    site.stop("producer-one")
    assert describe(site.judge(network["web"])) == ""
    acknowledged = len(site.observed.acknowledged)
    assert acknowledged > 200
    for outage in outages:
        name = outage.fault.partition(":")[0]
        assert outage.delivery < LONGEST[name][0], outage
        assert outage.ingest < LONGEST[name][1], outage
        # At most what was in flight at the cut.
        assert outage.duplicates <= LEASES, outage
    counted = f"SELECT COALESCE(SUM(value), 0) FROM stats_counters WHERE name = '{counters.REPEATED}'"
    [(repeated,)] = site.database.rows(counted)
    assert sum(each.duplicates for each in outages) <= repeated
    site.stop("web", "loops-a", "loops-b")


def test_an_idle_hub_on_several_hosts_delivers_at_once(site: Site, network: Network):
    """The web server, the loops and the worker are on hosts of their own: no notification arrives."""
    site.start_loops("loops-c", network["loops-a"], "--workers", "0")
    no_others = [f"--{kind}=0" for kind in ("routers", "orchestrators", "cleaners", "workflows")]
    site.start_loops("worker", network["loops-b"], *no_others)
    url = site.start_web("web", network["web"])
    site.wait_for(lambda: site.probe(network["web"], "/readyz") == 200, "the hub is ready")
    # More than a heartbeat: each loop knows where the others are.
    time.sleep(2)
    site.start_producer("idle", network["client"], url, 1)
    time.sleep(25)
    site.stop("producer-idle")
    assert describe(site.judge(network["web"])) == ""
    accepted = {
        entry["ids"][0]: entry["at"]
        for entry in journal.read(site.folder / "producer-idle.jsonl")
        if entry["type"] == "acknowledged"
    }
    keys = {event.uid: event.key[1] for event in site.observed.events.values()}
    latencies = sorted(
        receipt.at - accepted[keys[receipt.uid]] for receipt in site.observed.receipts if receipt.attempt == 1
    )
    print(f"idle, three hosts: p50 {statistics.median(latencies) * 1000:.0f} ms, max {latencies[-1] * 1000:.0f} ms")  # noqa: T201
    assert statistics.median(latencies) < 0.1
    site.stop("web", "loops-c", "worker")


def report(outages: list[Outage]) -> None:
    print("\n".join(["", *map(str, outages)]))  # noqa: T201
