"""How soon a hub that has nothing to do delivers an event, and what it costs to wait for one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.machine import CpuUsage, process_tree
from tools.torture import journal

from .site import Site

STATEMENTS = "SHOW GLOBAL STATUS LIKE 'Questions'"


@dataclass(frozen=True)
class Delays:
    """From the response to the producer until the endpoint has received the event, in seconds, sorted."""

    seconds: Sequence[float]

    @property
    def longest(self) -> float:
        return self.seconds[-1]

    def __str__(self) -> str:
        p95 = self.seconds[int(0.95 * (len(self.seconds) - 1))]
        figures = {"p50": statistics.median(self.seconds), "p95": p95, "maximum": self.longest}
        texts = [f"{name} {seconds * 1000:.0f} ms" for name, seconds in figures.items()]
        return f"{len(self.seconds)} events: {', '.join(texts)}"


def delays(site: Site, producer: str) -> Delays:
    """Of all events of this producer; the site has been judged."""
    accepted = {
        entry["ids"][0]: entry["at"]
        for entry in journal.read(site.folder / f"producer-{producer}.jsonl")
        if entry["type"] == "acknowledged"
    }
    keys = {event.uid: event.key[1] for event in site.observed.events.values()}
    receipts = [receipt for receipt in site.observed.receipts if receipt.attempt == 1]
    return Delays(sorted(receipt.at - accepted[keys[receipt.uid]] for receipt in receipts))


@dataclass(frozen=True)
class Cost:
    """Of a second: statements, and shares of one core."""

    statements: float
    hub: float
    database: float

    def __str__(self) -> str:
        cpu = f"CPU of the hub {self.hub:.1%}, of the database {self.database:.1%}"
        return f"{self.statements:.0f} statements a second, {cpu}"


def cost(site: Site, names: Sequence[str], server: int, seconds: float) -> Cost:
    """Of the processes with these names, and of the database server, while nothing happens."""
    usage = CpuUsage(
        {
            "hub": [pid for name in names for pid in process_tree(site.running[name].pid)],
            "database": [server],
        }
    )
    [(_, before)] = site.database.rows(STATEMENTS)
    time.sleep(seconds)
    [(_, after)] = site.database.rows(STATEMENTS)
    used = usage.used()
    return Cost((int(after) - int(before)) / seconds, used["hub"] / seconds, used["database"] / seconds)
