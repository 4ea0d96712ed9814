"""Hosts in network namespaces that are cut off from each other while events come in bursts: nothing is lost, deliveries
go on, and the torture's judge finds nothing."""

from __future__ import annotations

import time

import pytest

from tools.failover.measured import Outage
from tools.failover.servers import HostServer
from tools.failover.site import Site, describe, note
from tools.support.network import BOTH, DROP, IN, OUT, REJECT, Network
from webhookhub.stats import counters

pytestmark = pytest.mark.timeout(1500)

RATE, BURST = 5, 10
CUT_SECONDS = 8.0
# While it is cut off, a statement of a loop takes at most 5 s and one of the web server 15 s. Then it connects again,
# after a pause of up to 5 s. The web server lets clients wait for 5 s before they repeat a request.
WEB_SECONDS, PAUSE_SECONDS, RETRY_SECONDS = 15.0, 5.0, 5.0
# For what a working hub needs between two events, and a host to answer the repeated packets of a connection.
USUAL_SECONDS = 2.0
LEASES = 2 * 16  # of both workers together: the requests that can be in flight
ONE_HOST = "one of two hosts with loops, and the database"
ALL_LOOPS = "all loops and the database"
WORKERS = "workers and the endpoint"
WEB = "the web server and the database"
WAYS = [(BOTH, DROP), (IN, DROP), (OUT, DROP), (BOTH, REJECT)]


def test_nothing_is_lost_while_hosts_are_cut_off(site: Site, network: Network, server: HostServer):
    for name in ("loops-a", "loops-b"):
        site.start_loops(name, network[name])
    url = site.start_web("web", network["web"])
    site.wait_for(lambda: site.probe(network["web"], "/readyz") == 200, "the hub is ready")
    site.start_producer("one", network["client"], url, RATE, BURST)
    site.prefer(server.pid)
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
    note(*outages)
    site.stop("producer-one")
    assert describe(site.judge(network["web"])) == ""
    acknowledged = len(site.observed.acknowledged)
    assert acknowledged > 200
    for outage in outages:
        require_bounds(outage)
    counted = f"SELECT COALESCE(SUM(value), 0) FROM stats_counters WHERE name = '{counters.REPEATED}'"
    [(repeated,)] = site.database.rows(counted)
    assert sum(each.duplicates for each in outages) <= repeated
    site.stop("web", "loops-a", "loops-b")


def require_bounds(outage: Outage) -> None:
    name = outage.fault.partition(":")[0]
    if name == ONE_HOST:  # the other host goes on
        assert outage.delivery < USUAL_SECONDS, outage
    elif name == WEB:
        assert outage.ingest_after < WEB_SECONDS - CUT_SECONDS + RETRY_SECONDS, outage
        assert outage.delivery_after < outage.ingest_after + USUAL_SECONDS, outage
    else:
        assert outage.delivery_after < PAUSE_SECONDS + USUAL_SECONDS, outage
    if name != WEB:
        assert outage.ingest < USUAL_SECONDS, outage
    # At most what was in flight at the cut.
    assert outage.duplicates <= LEASES, outage
