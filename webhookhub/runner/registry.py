"""Each running process has a row in hub_processes that it updates with heartbeats."""

from __future__ import annotations

import os
import secrets
import socket
import time
from datetime import timedelta

from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.logs import Log, log
from webhookhub.models import Process

MISSED_HEARTBEATS = 6
# A process sends heartbeats between two steps, and a statement may wait this long.
MIN_SILENCE = timedelta(seconds=20)


class Registration:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.host = socket.gethostname()[:100]
        # The random part: after a restart of the machine another process may have the same pid.
        self.name = f"{kind}@{self.host}:{os.getpid()}:{secrets.token_hex(3)}"
        self._heartbeat_at = float("-inf")

    def heartbeat(self, *, force: bool = False) -> None:
        """Updates this process's row if it is time to, and creates it if it does not exist."""
        if not force and time.monotonic() - self._heartbeat_at < hub().heartbeat.total_seconds():
            return
        now = clock.now()
        if not Process.objects.filter(name=self.name).update(heartbeat_at=now):
            row = {
                "name": self.name,
                "kind": self.kind,
                "host": self.host,
                "pid": os.getpid(),
                "started_at": now,
                "heartbeat_at": now,
            }
            insert_new(Process, [row], key=("name",))
        self._heartbeat_at = time.monotonic()

    def remove(self) -> None:
        Process.objects.filter(name=self.name).delete()


def silent_after() -> timedelta:
    """How long a process may go without a heartbeat before it counts as silent."""
    return max(hub().heartbeat * MISSED_HEARTBEATS, MIN_SILENCE)


def remove_expired() -> int:
    """Removes the rows of processes that ended without removing their own; returns how many."""
    expired = Process.objects.filter(heartbeat_at__lt=clock.now() - hub().process_expiry)
    names = list(expired.values_list("name", flat=True))
    for name in names:
        log(Log.PROCESS_EXPIRED, process=name)
    if names:
        expired.filter(name__in=names).delete()
    return len(names)
