"""The run itself: the hub, the shop's services, every story at once, and a table of how they ended."""

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
from tools.demo.show import hub as running_hub

from .hub import Hub
from .shop import NAMES, Shop
from .stories import STORIES, Story
from .waiting import until

COLUMNS = ("story", "saga", "status", "facts", "books", "as expected")


class Outcome(NamedTuple):
    story: Story
    status: str
    anomaly: bool
    facts: int
    holds: str

    @property
    def as_expected(self) -> bool:
        told = self.story
        return (self.status, self.holds, self.anomaly) == (told.status, told.holds, told.anomaly)

    @property
    def cells(self) -> tuple[str, ...]:
        status = f"{self.status}, late fact" if self.anomaly else self.status
        right = "yes" if self.as_expected else "NO"
        return self.story.title, self.story.saga_type, status, str(self.facts), self.holds, right


def run(folder: Path, seconds: float) -> int:
    """0 only if every story ended as it must."""
    call_command("migrate", verbosity=0)
    started = time.monotonic()
    web = f"127.0.0.1:{free_port()}"
    with running_hub(folder, "--web", web) as process, opened_shop(web, folder / certificates.SERVER) as (shop, hub):
        print(f"The shop is open: {len(shop.services)} services, each at an HTTPS address of its own.", flush=True)
        failures = tell(shop, hub)
        outcomes = wait_for_outcomes(shop, hub, started + seconds)
        failures += [failure for service in shop.services for failure in service.failures]
    table([COLUMNS, *(outcome.cells for outcome in outcomes)])
    for failure in failures:
        print(f"  went wrong: {failure!r}")
    print(f"\n  seconds  {time.monotonic() - started:.1f}")
    right = all(outcome.as_expected for outcome in outcomes) and not failures
    return 0 if right and process.returncode == 0 else 1


@contextmanager
def opened_shop(web: str, certificate: Path) -> Iterator[tuple[Shop, Hub]]:
    """The services subscribed and verified; each publishes with a key of its own."""
    hub = Hub(f"http://{web}", keys.create("shop's operator", [READ, SUBSCRIPTIONS_WRITE], by="demo")[1])
    hub.wait_until_it_answers(60)
    own = {name: keys.create(f"{name} service", [EVENTS_WRITE], by="demo", source=name)[1] for name in NAMES}
    shop = Shop(hub, own, certificate)
    with ExitStack() as stack:
        for service in shop.services:
            stack.enter_context(service)
        for service in shop.services:
            service.subscribe()
        yield shop, hub


def tell(shop: Shop, hub: Hub) -> list[BaseException]:
    """Begin all stories at once; returns what went wrong with that."""
    with ThreadPoolExecutor(len(STORIES)) as pool:
        begun = [pool.submit(story.begin, shop, hub) for story in STORIES]
    return [error for each in begun if (error := each.exception()) is not None]


def wait_for_outcomes(shop: Shop, hub: Hub, end: float) -> list[Outcome]:
    """How the stories stand once all of them stand as they must, or time is up."""
    try:
        until(
            lambda: all(outcome(shop, hub, story).as_expected for story in STORIES),
            "all stories end as they must",
            max(0.0, end - time.monotonic()),
        )
    except TimeoutError as error:
        print(f"\n{error}.")
    return [outcome(shop, hub, story) for story in STORIES]


def outcome(shop: Shop, hub: Hub, story: Story) -> Outcome:
    found = hub.sagas_of(story.case, story.saga_type)
    if len(found) != 1:
        return Outcome(story, f"{len(found)} sagas", False, 0, shop.holds(story.case))
    [saga] = found
    facts = len(hub.timeline(saga["id"]))
    return Outcome(story, saga["status"], bool(saga["anomaly"]), facts, shop.holds(story.case))


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
