"""Kills, stops and disconnects processes at random times determined by a seed, and records each fault."""

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

from .config import EVERY_LOOP, LEASE_SECONDS, WEB, Config
from .database import Database
from .journal import Journal
from .processes import Processes, Slot

MAX_RESTART_PAUSE = 0.3
SUPERVISE_SECONDS = 1.0
EXIT_SECONDS = 10.0
RESUMED_SECONDS = 1.0
FIRST_DATABASE_KILL = 0.15
LAST_DATABASE_KILL = 0.95


class FaultInjector:
    """A queue of actions, each with its time. An action may schedule others."""

    def __init__(self, config: Config, processes: Processes, database: Database, journal: Journal) -> None:
        self._config = config
        self._processes = processes
        self._database = database
        self._journal = journal
        self._random = config.random("faults")
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._database_lock = threading.Lock()
        self._restarting: set[str] = set()
        self.failure: Exception | None = None

    def run(self, restart_producer: Callable[[Slot], None]) -> None:
        """Injects faults for the configured time. At the end, all processes run again."""
        self._restart_producer = restart_producer
        self._until = time.monotonic() + self._config.seconds
        for fault, mean in (
            (self._kill_loop, self._config.kill_mean),
            (self._stop_loop, self._config.stop_mean),
            (self._disconnect, self._config.cut_mean),
            (self._kill_producer, self._config.producer_kill_mean),
            (self._kill_web, self._config.web_kill_mean),
        ):
            if mean:
                self._repeat(fault, mean)
        for number in range(self._config.database_kills):
            span = LAST_DATABASE_KILL - FIRST_DATABASE_KILL
            share = FIRST_DATABASE_KILL + span * (number + self._random.random() * 0.5) / self._config.database_kills
            self._schedule(self._config.seconds * share, self._kill_database)
        self._supervise()
        while self._queue and self.failure is None:
            due, _, act = heapq.heappop(self._queue)
            time.sleep(max(0.0, due - time.monotonic()))
            act()
        with self._database_lock:
            pass  # wait for a restart of the database
        if self.failure is not None:
            raise self.failure

    def _schedule(self, after: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time.monotonic() + after, next(self._order), act))

    def _repeat(self, fault: Callable[[], None], mean: float) -> None:
        pause = self._random.expovariate(1 / mean)

        def act() -> None:
            self._repeat(fault, mean)
            fault()

        if time.monotonic() + pause < self._until:
            self._schedule(pause, act)

    def _pick(self, *kinds: str) -> Slot | None:
        """A running process that is not recovering from another fault."""
        candidates = [
            slot
            for slot in self._processes.of(*kinds)
            if slot.pid and not slot.stopped and slot.name not in self._restarting
        ]
        return self._random.choice(candidates) if candidates else None

    def _kill_loop(self) -> None:
        """Each kind equally often, if one of it runs."""
        kinds = self._random.sample(EVERY_LOOP, len(EVERY_LOOP))
        slot = next(filter(None, map(self._pick, kinds)), None)
        if slot is not None:
            self._kill(slot, self._processes.start)

    def _kill_producer(self) -> None:
        slot = self._pick("producer")
        if slot is not None:
            self._kill(slot, self._restart_producer)

    def _kill_web(self) -> None:
        slot = self._pick(WEB)
        if slot is not None:
            self._kill(slot, self._processes.start)

    def _kill(self, slot: Slot, restart: Callable[[Slot], None]) -> None:
        pid = slot.pid
        if self._processes.signal(slot, signal.SIGKILL):
            self._journal.write("killed", slot=slot.name, kind=slot.kind, pid=pid)
            self._restarting.add(slot.name)
            self._schedule(self._random.uniform(0, MAX_RESTART_PAUSE), lambda: self._restart(slot, restart))

    def _restart(self, slot: Slot, restart: Callable[[Slot], None]) -> None:
        if not self._processes.wait([slot], EXIT_SECONDS):
            raise RuntimeError(f"{slot.name} was killed but still runs")
        self._restarting.discard(slot.name)
        restart(slot)

    def _supervise(self) -> None:
        """Restarts loops that have exited by themselves, as a supervisor would. A claim reports them."""
        for slot in self._processes.of(*EVERY_LOOP, WEB):
            if not slot.pid and slot.name not in self._restarting:
                self._processes.start(slot)
        if time.monotonic() + SUPERVISE_SECONDS < self._until:
            self._schedule(SUPERVISE_SECONDS, self._supervise)

    def _stop_loop(self) -> None:
        """Stops it for longer than a lease, so that others get its work before it resumes and reports."""
        weights = {"worker": 5, "orchestrator": 3, "router": 1, "cleaner": 1, "workflows": 2, "hub": 12}
        kinds = {kind: weight for kind, weight in weights.items() if self._processes.of(kind)}
        slot = self._pick(*self._random.choices(list(kinds), list(kinds.values())))
        if slot is None or not self._processes.signal(slot, signal.SIGSTOP):
            return
        slot.stopped = True
        self._journal.write("stopped", slot=slot.name, kind=slot.kind, pid=slot.pid)
        self._schedule(LEASE_SECONDS + self._random.uniform(0.5, 2.5), lambda: self._resume(slot))

    def _resume(self, slot: Slot) -> None:
        self._processes.signal(slot, signal.SIGCONT)
        self._journal.write("resumed", slot=slot.name, kind=slot.kind, pid=slot.pid)

        def allow_faults() -> None:
            slot.stopped = False

        self._schedule(RESUMED_SECONDS, allow_faults)  # gives it time to report its late results

    def _disconnect(self) -> None:
        if self._database_lock.locked():
            return
        connections = self._database.connections()
        if not connections:
            return
        connection_id, port = self._random.choice(connections)
        owner = owner_of(port, [slot for slot in self._processes.slots.values() if slot.pid])
        if owner is not None and self._database.kill_connection(connection_id):
            self._journal.write("disconnected", slot=owner.name, kind=owner.kind, pid=owner.pid)

    def _kill_database(self) -> None:
        """In a thread of its own, so that loops are killed while the database is down, too."""
        if self._database_lock.acquire(blocking=False):
            pause = self._random.uniform(0.0, 2.0)
            threading.Thread(target=self._kill_and_restore_database, args=(pause,), daemon=True).start()
        else:
            self._schedule(SUPERVISE_SECONDS, self._kill_database)  # it is still starting

    def _kill_and_restore_database(self, pause: float) -> None:
        try:
            self._database.wait_until_killable()
            self._journal.write("database killed")
            self._database.kill()
            time.sleep(pause)
            self._database.restore()
            self._journal.write("database restored")
        except Exception as error:  # noqa: BLE001  # raised by the main thread
            self.failure = error
        finally:
            self._database_lock.release()


def owner_of(port: int, slots: list[Slot]) -> Slot | None:
    """The process whose connection uses this local port."""
    inode = _inode(port)
    for slot in slots:
        folder = Path(f"/proc/{slot.pid}/fd")
        try:
            if any(os.readlink(file) == f"socket:[{inode}]" for file in folder.iterdir()):
                return slot
        except OSError:
            continue  # it has just exited
    return None


def _inode(port: int) -> str:
    suffix = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields: list[Any] = line.split()
        if fields[1].endswith(suffix):
            return str(fields[9])
    return ""
