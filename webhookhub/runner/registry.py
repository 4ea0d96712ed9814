"""Each running process has a row that it keeps fresh, so that people and programs see who is there."""

from __future__ import annotations

import os
import secrets
import socket
import time

from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.logs import Fact, log
from webhookhub.models import Process


class Registration:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.host = socket.gethostname()[:100]
        # The random part: a restarted machine may give the same number to another process.
        self.name = f"{kind}@{self.host}:{os.getpid()}:{secrets.token_hex(3)}"
        self._beat_at = float("-inf")

    def beat(self, *, now: bool = False) -> None:
        """Say that this process is alive, if it is time to."""
        if not now and time.monotonic() - self._beat_at < hub().heartbeat.total_seconds():
            return
        moment = clock.now()
        if not Process.objects.filter(name=self.name).update(heartbeat_at=moment):
            insert_new(
                Process,
                [
                    {
                        "name": self.name,
                        "kind": self.kind,
                        "host": self.host,
                        "pid": os.getpid(),
                        "started_at": moment,
                        "heartbeat_at": moment,
                    }
                ],
                key=("name",),
            )
        self._beat_at = time.monotonic()

    def remove(self) -> None:
        Process.objects.filter(name=self.name).delete()


def forget_silent() -> int:
    """Remove the rows of processes that ended without saying so; returns how many."""
    silent = Process.objects.silent_since(clock.now() - hub().process_expiry)
    names = list(silent.values_list("name", flat=True))
    for name in names:
        log(Fact.PROCESS_FORGOTTEN, process=name)
    if names:
        silent.filter(name__in=names).delete()
    return len(names)
