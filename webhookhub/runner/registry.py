"""Each running step has a row in hub_processes that its process updates with heartbeats.

A process that runs several steps has a row for each, with the same pid, so that every reader sees which kinds run.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from datetime import timedelta

from webhookhub import __version__
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

    def remove(self) -> None:
        Process.objects.filter(name=self.name).delete()


def heartbeat(registrations: Sequence[Registration]) -> None:
    """Updates the rows of these steps of this process, and creates those that do not exist."""
    names = [registration.name for registration in registrations]
    if Process.objects.filter(name__in=names).update(heartbeat_at=clock.UtcNow()) == len(names):
        return
    now = clock.now()
    rows = [
        {
            "name": registration.name,
            "kind": registration.kind,
            "host": registration.host,
            "pid": os.getpid(),
            "version": __version__,
            "started_at": now,
            "heartbeat_at": now,
        }
        for registration in registrations
    ]
    insert_new(Process, rows, key=("name",))


def hosts() -> dict[str, set[str]]:
    """The hosts on which loops of each kind run. Called after a heartbeat, which is the newest or nearly so."""
    rows = list(Process.objects.values_list("kind", "host", "heartbeat_at"))
    newest = max((heartbeat_at for _, _, heartbeat_at in rows), default=None)
    found: dict[str, set[str]] = {}
    for kind, host, heartbeat_at in rows:
        if newest is not None and heartbeat_at >= newest - silent_after():
            found.setdefault(kind, set()).add(host)
    return found


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
