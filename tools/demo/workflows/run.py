"""Starts the hub and the shop's services, runs all scenarios at once and prints a table of the results."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from django.core.management import call_command

from api import keys
from api.scopes import EVENTS_WRITE, READ, SUBSCRIPTIONS_WRITE
from tools.demo import certificates
from tools.demo.run import hub as running_hub

from .hub import Hub
from .scenarios import SCENARIOS, Scenario
from .shop import NAMES, Shop
from .wait import wait_until

COLUMNS = ("scenario", "workflow", "status", "facts", "recorded by", "as expected")


class Outcome(NamedTuple):
    scenario: Scenario
    status: str
    anomaly: bool
    facts: int
    holds: str

    @property
    def as_expected(self) -> bool:
        expected = self.scenario
        return (self.status, self.holds, self.anomaly) == (expected.status, expected.holds, expected.anomaly)

    @property
    def cells(self) -> tuple[str, ...]:
        status = f"{self.status}, late fact" if self.anomaly else self.status
        verdict = "yes" if self.as_expected else "NO"
        return self.scenario.title, self.scenario.saga_type, status, str(self.facts), self.holds, verdict


def run(folder: Path, seconds: float) -> int:
    """Returns 0 only if every scenario ended as expected."""
    call_command("migrate", verbosity=0)
    started = time.monotonic()
    web = f"127.0.0.1:{free_port()}"
    with running_hub(folder, "--web", web) as process, opened_shop(web, folder / certificates.SERVER) as (shop, hub):
        print(f"{len(shop.services)} services are running, each with its own HTTPS endpoint.", flush=True)
        failures = start(shop, hub)
        outcomes = wait_for_outcomes(shop, hub, started + seconds)
        failures += [failure for service in shop.services for failure in service.failures]
    table([COLUMNS, *(outcome.cells for outcome in outcomes)])
    for failure in failures:
        print(f"  error: {failure!r}")
    print(f"\n  seconds  {time.monotonic() - started:.1f}")
    succeeded = all(outcome.as_expected for outcome in outcomes) and not failures
    return 0 if succeeded and process.returncode == 0 else 1


@contextmanager
def opened_shop(web: str, certificate: Path) -> Iterator[tuple[Shop, Hub]]:
    """The services, subscribed and verified. Each publishes with its own API key."""
    hub = Hub(f"http://{web}", keys.create("shop operator", [READ, SUBSCRIPTIONS_WRITE], by="demo")[1])
    hub.wait_until_ready(60)
    service_keys = {name: keys.create(f"{name} service", [EVENTS_WRITE], by="demo", source=name)[1] for name in NAMES}
    shop = Shop(hub, service_keys, certificate)
    with ExitStack() as stack:
        for service in shop.services:
            stack.enter_context(service)
        for service in shop.services:
            service.subscribe()
        yield shop, hub


def start(shop: Shop, hub: Hub) -> list[BaseException]:
    """Starts all scenarios at once. Returns their errors."""
    with ThreadPoolExecutor(len(SCENARIOS)) as pool:
        futures = [pool.submit(scenario.start, shop, hub) for scenario in SCENARIOS]
    return [error for future in futures if (error := future.exception()) is not None]


def wait_for_outcomes(shop: Shop, hub: Hub, end: float) -> list[Outcome]:
    """The outcomes as soon as all are as expected, or when the time is over."""
    try:
        wait_until(
            lambda: all(outcome(shop, hub, scenario).as_expected for scenario in SCENARIOS),
            "all scenarios end as expected",
            max(0.0, end - time.monotonic()),
        )
    except TimeoutError as error:
        print(f"\n{error}.")
    return [outcome(shop, hub, scenario) for scenario in SCENARIOS]


def outcome(shop: Shop, hub: Hub, scenario: Scenario) -> Outcome:
    runs = hub.workflow_runs(scenario.case, scenario.saga_type)
    if len(runs) != 1:
        return Outcome(scenario, f"{len(runs)} workflow runs", False, 0, shop.holds(scenario.case))
    [run] = runs
    facts = len(hub.timeline(run["id"]))
    return Outcome(scenario, run["status"], bool(run["anomaly"]), facts, shop.holds(scenario.case))


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
