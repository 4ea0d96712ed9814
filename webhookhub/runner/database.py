"""The connection that steps use, and how long they wait after its server is lost."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

from webhookhub.conf import PROCESS_DATABASE_URLS, database, hub
from webhookhub.db import vendors
from webhookhub.db.errors import kind_of
from webhookhub.db.retry import GIVE_UP_AFTER
from webhookhub.logs import Log, log

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_RECONNECT_SECONDS = 0.5
LAST_RECONNECT_SECONDS = 5.0


class Database:
    """One connection; the steps of a process share it, or each has its own with its own user."""

    def __init__(self, own: BaseDatabaseWrapper) -> None:
        self._connection = own
        self._losses = 0
        self.available_at = 0.0
        # When it has been checked whether the hub can use it.
        self.is_checked = False
        self.heartbeat_at = 0.0

    def bound(self, statement_seconds: int, lock_seconds: int | None = None) -> None:
        """Limits how long a statement may take, and with `lock_seconds`, how long a transaction waits for locks."""
        vendors.bound_waiting(self._connection, statement_seconds)
        if lock_seconds is not None:
            vendors.bound_locks(self._connection, lock_seconds)
            self._connection.settings_dict[GIVE_UP_AFTER] = statement_seconds

    def use(self) -> None:
        """Makes it the connection that this thread uses."""
        if connections[DEFAULT_DB_ALIAS] is not self._connection:
            connections[DEFAULT_DB_ALIAS] = self._connection

    def close(self) -> None:
        self._connection.close()

    def note_lost(self, process: str, error: Exception, longest: float) -> None:
        self._losses += 1
        pause = min(FIRST_RECONNECT_SECONDS * 2 ** min(self._losses, 10), LAST_RECONNECT_SECONDS)
        pause = min(pause * random.uniform(0.5, 1.0), longest)  # noqa: S311
        cause = kind_of(error).value
        log(Log.DATABASE_LOST, process=process, error=str(error), cause=cause, retry_in_seconds=round(pause, 2))
        self.close()
        self.available_at = time.monotonic() + pause

    def note_used(self, process: str) -> None:
        if self._losses and self._connection.connection is not None:
            log(Log.DATABASE_RECONNECTED, process=process, after_attempts=self._losses)
            self._losses = 0


def usual() -> Database:
    """The connection of DATABASE_URL."""
    return Database(connections[DEFAULT_DB_ALIAS])


def of_kinds(urls: Mapping[str, str], kinds: list[str]) -> dict[str, Database]:
    """A connection for each kind with a URL of its own; the others share one."""
    shared = usual()
    return {kind: Database(_connection(kind, urls[kind])) if urls.get(kind) else shared for kind in kinds}


def _connection(kind: str, url: str) -> BaseDatabaseWrapper:
    # Under the usual alias, so that transactions and queries treat it as the usual connection.
    own = database(url, PROCESS_DATABASE_URLS[kind], lock_limit=hub().database_lock_limit)
    settings = connections.configure_settings({DEFAULT_DB_ALIAS: own})[DEFAULT_DB_ALIAS]
    wrapper: BaseDatabaseWrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, DEFAULT_DB_ALIAS)
    return wrapper
