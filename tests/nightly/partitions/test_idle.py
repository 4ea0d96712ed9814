"""A hub on several hosts that has nothing to do: no notification arrives, and an event is delivered within a tenth of a
second all the same. What the polling costs."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from tools.failover import idle
from tools.failover.servers import HostServer
from tools.failover.site import Site, describe, note
from tools.support.network import Network

pytestmark = pytest.mark.timeout(300)

EVENTS = 40  # one a second
COST_SECONDS = 10.0
DELIVERED_SECONDS = 0.1
KINDS = ("router", "orchestrator", "worker", "cleaner", "workflows")
# The kinds of loops on each host, and how many statements a second their polls may cost together.
LAYOUTS: Mapping[str, tuple[Mapping[str, set[str]], float]] = {
    "two hubs": ({"loops-a": set(KINDS), "loops-b": set(KINDS)}, 80),
    "a worker of its own": ({"loops-a": set(KINDS) - {"worker"}, "loops-b": {"worker"}}, 120),
    "a host for each": (
        {"loops-a": set(KINDS) - {"orchestrator", "worker"}, "loops-b": {"orchestrator"}, "loops-c": {"worker"}},
        240,
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_idle_hub_on_several_hosts_delivers_at_once(site: Site, network: Network, server: HostServer, layout: str):
    hosts, most_statements = LAYOUTS[layout]
    for name, kinds in hosts.items():
        none = [f"--{kind.removesuffix('s')}s=0" for kind in KINDS if kind not in kinds]
        site.start_loops(name, network[name], *none)
    url = site.start_web("web", network["web"])
    site.wait_for(lambda: site.probe(network["web"], "/readyz") == 200, "the hub is ready")
    # More than a heartbeat: each loop knows where the others are.
    time.sleep(2)
    cost = idle.cost(site, [*hosts, "web"], server.pid, COST_SECONDS)
    site.start_producer("idle", network["client"], url, 1)
    site.prefer(server.pid)
    time.sleep(EVENTS)
    site.stop("producer-idle")
    assert describe(site.judge(network["web"])) == ""
    delays = idle.delays(site, "idle")
    note(f"{layout}: {cost}; {delays}")
    assert len(delays.seconds) > 0.8 * EVENTS
    assert delays.longest < DELIVERED_SECONDS
    assert cost.statements < most_statements
    site.stop("web", *hosts)
