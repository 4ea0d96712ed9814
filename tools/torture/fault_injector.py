"""The tormentor: kills, stops and cuts off at random moments, by dice that a seed determines, and writes it down."""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fleet import Fleet, Slot
from .journal import Journal
from .plan import LEASE_SECONDS, LOOPS, WEB, Plan
from .target import Target

LONGEST_PAUSE = 0.3
SUPERVISE_SECONDS = 1.0
DEATH_SECONDS = 10.0
FIRST_DATABASE_KILL = 0.15
LAST_DATABASE_KILL = 0.95


class Chaos:
    """Faults wait in a queue, each for its moment; what is done plans what comes next."""

    def __init__(self, plan: Plan, fleet: Fleet, target: Target, journal: Journal) -> None:
        self._plan = plan
        self._fleet = fleet
        self._target = target
        self._journal = journal
        self._dice = plan.random("chaos")
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._database = threading.Lock()
        self._awaited: set[str] = set()
        self.failure: Exception | None = None

    def torment(self, restart_producer: Callable[[Slot], None]) -> None:
        """For as long as the plan says; afterwards everything runs again."""
        self._restart_producer = restart_producer
        self._began = time.monotonic()
        self._until = self._began + self._plan.seconds
        for fault, mean in (
            (self._kill_loop, self._plan.kill_mean),
            (self._stop_loop, self._plan.stop_mean),
            (self._cut_connection, self._plan.cut_mean),
            (self._kill_producer, self._plan.producer_kill_mean),
            (self._kill_web, self._plan.web_kill_mean),
        ):
            if mean:
                self._repeat(fault, mean)
        for number in range(self._plan.database_kills):
            span = LAST_DATABASE_KILL - FIRST_DATABASE_KILL
            share = FIRST_DATABASE_KILL + span * (number + self._dice.random() * 0.5) / self._plan.database_kills
            self._at(self._plan.seconds * share, self._kill_database)
        self._supervise()
        while self._planned and self.failure is None:
            moment, _, act = heapq.heappop(self._planned)
            time.sleep(max(0.0, moment - time.monotonic()))
            act()
        with self._database:
            pass  # a restart of it may still be under way
        if self.failure is not None:
            raise self.failure

    def _at(self, after: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (time.monotonic() + after, next(self._order), act))

    def _repeat(self, fault: Callable[[], None], mean: float) -> None:
        pause = self._dice.expovariate(1 / mean)

        def again() -> None:
            self._repeat(fault, mean)
            fault()

        if time.monotonic() + pause < self._until:
            self._at(pause, again)

    def _pick(self, *kinds: str) -> Slot | None:
        """One that runs, and has no fault yet to recover from."""
        there = [
            slot for slot in self._fleet.of(*kinds) if slot.pid and not slot.stopped and slot.name not in self._awaited
        ]
        return self._dice.choice(there) if there else None

    def _kill_loop(self) -> None:
        """Each kind equally often, while one of it is there."""
        kinds = self._dice.sample(list(LOOPS), len(LOOPS))
        slot = next(filter(None, map(self._pick, kinds)), None)
        if slot is not None:
            self._kill(slot, self._fleet.start)

    def _kill_producer(self) -> None:
        slot = self._pick("producer")
        if slot is not None:
            self._kill(slot, self._restart_producer)

    def _kill_web(self) -> None:
        slot = self._pick(WEB)
        if slot is not None:
            self._kill(slot, self._fleet.start)

    def _kill(self, slot: Slot, restart: Callable[[Slot], None]) -> None:
        pid = slot.pid
        if self._fleet.signal(slot, signal.SIGKILL):
            self._journal.write("killed", slot=slot.name, kind=slot.kind, pid=pid)
            self._awaited.add(slot.name)
            self._at(self._dice.uniform(0, LONGEST_PAUSE), lambda: self._revive(slot, restart))

    def _revive(self, slot: Slot, restart: Callable[[Slot], None]) -> None:
        if not self._fleet.wait([slot], DEATH_SECONDS):
            raise RuntimeError(f"{slot.name} was killed and lives")
        self._awaited.discard(slot.name)
        restart(slot)

    def _supervise(self) -> None:
        """A loop that has ended by itself is started again, as any supervisor would; the judge hears of it."""
        for slot in self._fleet.of(*LOOPS, WEB):
            if not slot.pid and slot.name not in self._awaited:
                self._fleet.start(slot)
        if time.monotonic() + SUPERVISE_SECONDS < self._until:
            self._at(SUPERVISE_SECONDS, self._supervise)

    def _stop_loop(self) -> None:
        """For longer than a lease, so that what it holds is given to others before it wakes up and reports."""
        kinds = {"worker": 5, "orchestrator": 3, "router": 1, "cleaner": 1, "workflows": 2}
        slot = self._pick(*self._dice.choices(list(kinds), list(kinds.values())))
        if slot is None or not self._fleet.signal(slot, signal.SIGSTOP):
            return
        slot.stopped = True
        self._journal.write("stopped", slot=slot.name, kind=slot.kind, pid=slot.pid)
        self._at(LEASE_SECONDS + self._dice.uniform(0.5, 2.5), lambda: self._wake(slot))

    def _wake(self, slot: Slot) -> None:
        self._fleet.signal(slot, signal.SIGCONT)
        self._journal.write("woken", slot=slot.name, kind=slot.kind, pid=slot.pid)

        def mortal_again() -> None:
            slot.stopped = False

        self._at(1.0, mortal_again)  # first it is to say what it has to say

    def _cut_connection(self) -> None:
        if self._database.locked():
            return
        victims = self._target.connections()
        if not victims:
            return
        number, port = self._dice.choice(victims)
        owner = owner_of(port, [slot for slot in self._fleet.slots.values() if slot.pid])
        if owner is not None and self._target.kill_connection(number):
            self._journal.write("cut", slot=owner.name, kind=owner.kind, pid=owner.pid)

    def _kill_database(self) -> None:
        """Beside everything else: the loops are killed while their database is away, too."""
        if self._database.acquire(blocking=False):
            threading.Thread(target=self._crash, args=(self._dice.uniform(0.0, 2.0),), daemon=True).start()
        else:
            self._at(SUPERVISE_SECONDS, self._kill_database)  # it is still getting up

    def _crash(self, pause: float) -> None:
        try:
            self._target.get_ready()
            self._journal.write("database killed")
            self._target.kill()
            time.sleep(pause)
            self._target.restore()
            self._journal.write("database back")
        except Exception as error:  # noqa: BLE001  # raised by the main thread
            self.failure = error
        finally:
            self._database.release()


def owner_of(port: int, slots: list[Slot]) -> Slot | None:
    """Whose connection leaves from this port of the machine."""
    inode = _inode(port)
    for slot in slots:
        folder = Path(f"/proc/{slot.pid}/fd")
        try:
            if any(os.readlink(file) == f"socket:[{inode}]" for file in folder.iterdir()):
                return slot
        except OSError:
            continue  # it has just ended
    return None


def _inode(port: int) -> str:
    wanted = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields: list[Any] = line.split()
        if fields[1].endswith(wanted):
            return str(fields[9])
    return ""
