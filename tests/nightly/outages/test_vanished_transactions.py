"""A host that vanishes at the commit of each transaction of the hub: the server has released its locks within the
limit, and the work can be done again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from events.intake import publish
from tests.conformance import world
from tests.conformance.crashes import places_in_the_product
from tests.processes.support import until
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import vendors

from .transactions import CASES, Place, transactions

pytestmark = [pytest.mark.mysql_family, pytest.mark.timeout(120)]

# Shorter than any that the setting allows; tests/nightly/outages/test_vanished_process.py has a real one.
IDLE_SECONDS = 3
LIMIT_SECONDS = IDLE_SECONDS + vendors.STATEMENT_SECONDS
# Not innodb_trx: while it is read often, it shows an old copy.
OPEN = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"


class Vanishing:
    """Runs `work` in a thread whose connection falls silent at the commit of the transaction at `place`, if that has
    locked rows: nothing more is sent or received."""

    def __init__(self, work: Callable[[], object], place: Place) -> None:
        self._work, self._place = work, place
        self._silent, self._ended = threading.Event(), threading.Event()
        self.connection_id = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Vanishing:
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ended.set()
        self._thread.join(60)

    @property
    def is_silent(self) -> bool:
        """Whether it has reached a commit; False if it has ended without one."""
        while not self._silent.wait(0.1):
            if not self._thread.is_alive():
                return self._silent.is_set()
        return True

    def _run(self) -> None:
        own: Any = connections["default"].copy()
        own.settings_dict["OPTIONS"]["init_command"] = vendors.SESSION.format(idle=IDLE_SECONDS)
        usual = own._commit
        locked: list[bool] = []

        def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            if own.in_atomic_block and locks(sql) and context["cursor"].rowcount > 0:
                locked.append(self._place.is_among(places_in_the_product()))
            return result

        own.execute_wrappers.append(watch)

        def commit() -> None:
            if any(locked) and not self._silent.is_set():
                self.connection_id = own.connection.thread_id()
                self._silent.set()
                self._ended.wait(120)
            locked.clear()
            usual()

        own._commit = commit
        connections["default"] = own
        try:
            self._work()
        except Exception:  # noqa: BLE001  # its connection is lost: that is what is tested
            pass
        finally:
            own.close()


def locks(sql: str) -> bool:
    return sql.startswith(("INSERT", "UPDATE", "DELETE")) or "FOR UPDATE" in sql


def is_open(connection_id: int) -> bool:
    """Whether its session, and with it its transaction, is open."""
    with connection.cursor() as cursor:
        cursor.execute(OPEN, [connection_id])
        return bool(cursor.fetchone()[0])


def test_the_list_of_transactions_is_complete():
    assert sorted(CASES) == sorted(place.name for place in transactions())


@pytest.mark.parametrize("place", transactions(), ids=lambda place: place.name)
def test_the_locks_of_a_vanished_host_end_within_the_limit(committed: None, endpoint: HttpsEndpoint, place: Place):
    case = CASES[place.name]
    work = case.prepare(endpoint)
    with Vanishing(work, place) as vanishing:
        assert vanishing.is_silent
        vanished_at = time.monotonic()
        assert is_open(vanishing.connection_id)
        publish("order.meanwhile", {})
        assert is_open(vanishing.connection_id), "publishing has waited for its locks"
        until(lambda: not is_open(vanishing.connection_id), "the server ends the session", LIMIT_SECONDS)
        assert time.monotonic() - vanished_at > IDLE_SECONDS - 2
        case.recover()
        work()
        world.run_to_end()
