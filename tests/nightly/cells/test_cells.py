"""Two hubs on two servers with disjoint ids. When one server is killed, the other cell goes on without a pause."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tools.failover.measured import longest_gap
from tools.failover.site import Site, describe, note
from tools.support.database_server import NoServer, PrivateServer
from tools.support.network import LocalHost
from tools.support.ports import free_port
from tools.torture import journal
from tools.torture.database import DURABLE, ServerDatabase
from webhookhub.client import Cells, Client
from webhookhub.client.cells import BUCKETS

pytestmark = pytest.mark.timeout(400)

NAMES = ("north", "south")
RATE = 20
DOWN_SECONDS = 15.0
# Between two of 20 events a second. A pause of the other cell would be as long as the outage.
PAUSE_SECONDS = 1.0


class Cell:
    def __init__(self, name: str, server: PrivateServer, site: Site) -> None:
        self.name, self.server, self.site = name, server, site
        self.url = ""

    def client(self) -> Client:
        return Client(self.url, self.site.key_file.read_text(), timeout=2, deadline=4)


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[dict[str, Cell]]:
    with ExitStack() as stack:
        found = {}
        for offset, name in enumerate(NAMES, 1):
            options = (*DURABLE, f"--auto-increment-increment={len(NAMES)}", f"--auto-increment-offset={offset}")
            try:
                private = PrivateServer(options)
            except NoServer as reason:
                pytest.skip(str(reason))
            server = stack.enter_context(private)
            site = stack.enter_context(Site(tmp_path / name, ServerDatabase(server), server.url()))
            found[name] = Cell(name, server, site)
        for cell in found.values():
            host = LocalHost()
            cell.site.prepare(host, host)
            cell.site.start_loops("loops", host)
            cell.url = cell.site.start_web("web", host, free_port(), free_port())
            cell.site.start_producer(cell.name, host, cell.url, RATE)
        yield found


def test_a_cell_goes_on_while_the_other_one_has_no_database(cells: dict[str, Cell]):
    north, south = cells.values()
    time.sleep(5)
    started_at = time.time()
    outage = north.site.fault("kill", north.server.kill, north.server.start, DOWN_SECONDS)
    ended_at = time.time()

    assert outage.delivery > DOWN_SECONDS - PAUSE_SECONDS
    received = [entry["at"] for entry in journal.read(south.site.folder / "received.jsonl")]
    accepted = [
        entry["at"] for entry in journal.read(south.site.folder / "producer-south.jsonl") if entry["type"] != "intent"
    ]
    pauses = [longest_gap(times, started_at, ended_at) for times in (received, accepted)]
    note(outage, f"the other cell: {pauses[0]:.2f} s without a delivery, {pauses[1]:.2f} s without an event")
    assert max(pauses) < PAUSE_SECONDS
    for number, cell in enumerate(cells.values(), 1):
        cell.site.stop(f"producer-{cell.name}")
        assert describe(cell.site.judge(LocalHost())) == ""
        for table in ("events", "webhook_delivery_sagas", "webhook_delivery_jobs"):
            [(others,)] = cell.site.database.rows(
                f"SELECT COUNT(*) FROM {table} WHERE id % {len(NAMES)} <> {number % 2}"
            )
            assert others == 0
        cell.site.stop("web", "loops")


def test_customers_are_mapped_to_cells_and_a_repeat_finds_the_same_event(cells: dict[str, Cell]):
    half = BUCKETS // 2
    by_cell = {"north": range(half), "south": range(half, BUCKETS)}
    with Cells({name: cell.client() for name, cell in cells.items()}, by_cell) as hubs:
        customers = [f"customer-{number}" for number in range(20)]
        assert {hubs.cell_of(customer) for customer in customers} == set(NAMES)
        for customer in customers:
            first = hubs.publish(customer, "order.created", {"key": customer}, f"order-of-{customer}")
            again = hubs.publish(customer, "order.created", {"key": customer}, f"order-of-{customer}")
            assert (first.created, again.created, again.uid) == (True, False, first.uid)
            for name, cell in cells.items():
                sql = f"SELECT COUNT(*) FROM events WHERE external_id = 'order-of-{customer}'"
                assert cell.site.database.rows(sql) == [(int(name == hubs.cell_of(customer)),)]
