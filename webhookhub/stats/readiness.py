"""Whether the hub can work. A thread of its own asks the database, so that a database that hangs delays no probe."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

from django.db import Error, connection

from webhookhub.conf import KINDS, hub
from webhookhub.db import clock, errors, ingest, requirements, vendors
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.db.timeouts import short_timeouts
from webhookhub.logs import Log, log
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after

from . import ready_work

# Less than the usual time-outs of load balancers.
RESPONSE_SECONDS = 1.5
STATEMENT_SECONDS = 2
# How long a full disk is reported after the last statement that failed because of it.
FULL_SECONDS = 60
NO_DATABASE = "the database does not respond"
PROBLEMS = {
    Kind.READ_ONLY: "the database is read-only",
    Kind.OFFLINE: "the database is offline",
    Kind.FULL: "the database is full",
    Kind.REFUSED: "the database accepts no further connections",
}

_lock = threading.Lock()
_running: Future[list[str]] | None = None
_started_at = 0.0
_last_missing: list[str] = []
_was_ready = False


def report() -> tuple[int, dict[str, Any]]:
    """The HTTP status and the document of /readyz."""
    found = missing()
    _log_change(found)
    return (503, {"status": "not ready", "missing": found}) if found else (200, {"status": "ready", "missing": []})


def _log_change(found: list[str]) -> None:
    """Once for each change. Before the hub was ready for the first time, it is only starting."""
    global _last_missing, _was_ready
    if found and found != _last_missing:
        log(Log.NOT_READY if _was_ready else Log.NOT_READY_YET, missing=found)
    _was_ready = _was_ready or not found
    _last_missing = found


def missing() -> list[str]:
    """What the hub lacks to do its work, within RESPONSE_SECONDS. Empty if it is ready.

    One thread at a time: a call during a check gets the result of that check, or learns at once that it takes too long.
    """
    global _running, _started_at
    with _lock:
        if _running is None or _running.done():
            _running, _started_at = Future(), time.monotonic()
            threading.Thread(target=_check, args=(_running,), name="readiness", daemon=True).start()
        running, until = _running, _started_at + RESPONSE_SECONDS
    try:
        return running.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return [NO_DATABASE]


def _check(future: Future[list[str]]) -> None:
    try:
        future.set_result(_missing())
    except Error as error:
        kind = kind_of(error)
        # Only the log has the error: it may name the server and its user.
        log(Log.DATABASE_LOST, process="web", error=str(error), cause=kind.value)
        future.set_result([PROBLEMS.get(kind, NO_DATABASE)])
    except BaseException as error:  # noqa: BLE001  # raised by the caller
        future.set_exception(error)


def _missing() -> list[str]:
    with short_timeouts(STATEMENT_SECONDS):
        try:
            requirements.require_migrated()
        except UnsuitableDatabase as error:
            return [str(error)]
        found = [*_database(), *_loops()]
    if ingest.is_configured():
        with short_timeouts(STATEMENT_SECONDS, ingest.ALIAS):
            clock.now()
    return found


def _database() -> list[str]:
    found = []
    if (kind := vendors.refuses_writes(connection)) is not None:
        found.append(PROBLEMS[kind])
    if time.monotonic() - errors.last_seen.get(Kind.FULL, float("-inf")) < FULL_SECONDS:
        found.append(PROBLEMS[Kind.FULL])
    return found


def _loops() -> list[str]:
    now = clock.now()
    alive = {process.kind for process in Process.objects.all() if process.is_alive(now, silent_after())}
    seconds = silent_after().total_seconds()
    silent = [f"no {kind}: no heartbeat in the last {seconds:g} s" for kind in KINDS if kind not in alive]
    stuck = [
        f"{kind.replace('_', ' ')} are not processed: the oldest has been ready for "
        f"{ready_work.age(work, now).total_seconds():.0f} s"
        for kind, work in ready_work.stuck(now, hub().stuck_after).items()
    ]
    return silent + stuck
