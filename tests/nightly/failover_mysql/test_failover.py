"""Three genuine MySQL servers with group replication behind HAProxy: the primary is killed, stopped, cut off or taken
offline, and its address changes. Nothing is lost."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tools.failover.measured import Outage
from tools.failover.site import Site, SocketDatabase, describe, has_program, note
from tools.support.mysql_group import PORT, Group, Member
from tools.support.network import Host, Network

from .conftest import NODES

pytestmark = pytest.mark.timeout(1500)

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "haproxy"
NAME = "database.internal"
RATE, BURST = 5, 10
# From the election, which the group decides, to the first delivery and the first event: two of HAProxy's checks, each
# as long as the time between two, then the pause of a loop or the client.
HUB_SECONDS = 3 * 3.0 + 5.0
IN_FLIGHT = 16
PATHS = {"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def _programs() -> None:
    if not has_program("haproxy") or not has_program("mysql"):
        pytest.skip("needs haproxy and mysql (apt-get install haproxy mariadb-client)")


class Named:
    """The database's name on the hosts of the hub, and their HAProxy."""

    def __init__(self, folder: Path, hosts: list[Host], members: list[Member]) -> None:
        folder.mkdir()
        self._folder, self._hosts = folder, hosts
        text = (DEPLOY / "database.cfg").read_text().replace("/etc/haproxy", str(folder))
        for number, member in enumerate(members, 1):
            text = text.replace(f"192.0.2.{number}", member.host.address)
        (folder / "haproxy.cfg").write_text(text)
        (folder / "writer-check").write_bytes((DEPLOY / "writer-check").read_bytes())
        (folder / "writer-check").chmod(0o755)
        (folder / "writer-check.cnf").write_text("[client]\nuser = plain\npassword = plain\n")
        self._proxies: list[subprocess.Popen[bytes]] = []
        for host in hosts:
            self.lead_to("127.0.0.1", host)
            self._proxies.append(
                host.start(["haproxy", "-db", "-f", str(folder / "haproxy.cfg")], folder / f"{host.name}.log", PATHS)
            )

    def lead_to(self, address: str, *hosts: Host) -> None:
        for host in hosts or self._hosts:
            host.name_hosts(self._folder / f"{host.name}.hosts", {NAME: address})

    def stop_proxies(self) -> None:
        while self._proxies:
            proxy = self._proxies.pop()
            proxy.kill()
            proxy.wait()


@pytest.fixture
def named(network: Network, group: Group, tmp_path: Path) -> Iterator[Named]:
    running = Named(tmp_path / "proxy", [network["web"], network["loops"]], group.members)
    yield running
    running.stop_proxies()


@pytest.fixture
def site(network: Network, group: Group, named: Named, tmp_path: Path) -> Iterator[Site]:
    database = SocketDatabase(lambda: group.primary.socket)
    url = f"mysql://plain:plain@{NAME}:{PORT}/webhookhub"
    with Site(tmp_path / "site", database, url) as running:
        for name in ("web", "loops"):
            running.wait_for(partial(leads_to_writer, network[name]), "HAProxy has found the primary")
        running.prepare(network["endpoint"], network["web"])
        running.start_loops("loops", network["loops"])
        yield running


def leads_to_writer(host: Host) -> bool:
    """HAProxy takes every server for healthy until its first checks have failed, and chooses them in turn."""
    login = [
        "mysql",
        f"--host={NAME}",
        "--user=plain",
        "--password=plain",
        "--connect-timeout=2",
        "--skip-column-names",
    ]
    command = [*host.prefix, *login, "--batch", "--execute=SELECT @@super_read_only"]
    return all(subprocess.run(command, capture_output=True, text=True).stdout.strip() == "0" for _ in NODES)


def test_the_hub_follows_the_primary(site: Site, network: Network, group: Group, named: Named):
    web = site.start_web("web", network["web"])
    site.wait_for(lambda: site.probe(network["web"], "/readyz") == 200, "the hub is ready")
    site.start_producer("one", network["client"], web, RATE, BURST)
    site.prefer(*(member.pid for member in group.members))
    time.sleep(3)
    outages = [
        kill(site, group),
        stop_and_wake(site, group),
        cut_off(site, group, network),
        offline(site, group),
        move(site, group, network, named),
    ]
    note(*outages)
    site.stop("producer-one")
    assert describe(site.judge(network["web"])) == ""
    assert len(site.observed.acknowledged) > 150
    for outage in outages:
        assert outage.delivery_after < HUB_SECONDS, outage
        assert outage.ingest_after < HUB_SECONDS, outage
        assert outage.duplicates <= IN_FLIGHT, outage
    site.stop("web", "loops")


def kill(site: Site, group: Group) -> Outage:
    primary = group.primary
    outage = site.fault("the primary is killed", primary.kill, lambda: group.elected(primary), 1)
    primary.rejoin()
    group.wait_until_complete()
    return outage


def stop_and_wake(site: Site, group: Group) -> Outage:
    """It wakes up as a primary that has been replaced."""
    primary = group.primary

    def wake() -> None:
        group.elected(primary)
        primary.resume()

    outage = site.fault("the primary is stopped, and wakes up later", primary.pause, wake, 10)
    site.wait_for(lambda: primary.rows("SELECT @@super_read_only") == [(1,)], "it has noticed")
    primary.rejoin()
    group.wait_until_complete()
    return outage


def cut_off(site: Site, group: Group, network: Network) -> Outage:
    """The other members cannot reach it, the hub can: it must not accept anything."""
    primary = group.primary
    others = [member.host for member in group.members if member is not primary]
    outage = site.fault(
        "the primary is cut off from the others", lambda: primary.host.cut(*others), lambda: group.elected(primary), 10
    )
    primary.host.heal()
    primary.rejoin()
    group.wait_until_complete()
    return outage


def offline(site: Site, group: Group) -> Outage:
    """Nothing is elected: the group goes on, and its primary refuses ordinary users."""
    primary = group.primary
    return site.fault(
        "offline mode of the primary",
        lambda: primary.execute("SET GLOBAL offline_mode = ON"),
        lambda: primary.execute("SET GLOBAL offline_mode = OFF"),
        8,
    )


def move(site: Site, group: Group, network: Network, named: Named) -> Outage:
    """Without HAProxy: the name gets the address of the next primary, and the old address never responds again."""
    primary = group.primary
    named.lead_to(primary.host.address)
    named.stop_proxies()
    since = time.time()
    site.wait_for(lambda: site.is_current(since), "deliveries without HAProxy")
    everybody = [host for host in network.hosts.values() if host is not primary.host]

    def follow() -> None:
        named.lead_to(group.elected(primary).host.address)

    outage = site.fault("the address changes, the old one is silent", lambda: primary.host.cut(*everybody), follow, 1)
    assert group.primary is not primary
    return outage
