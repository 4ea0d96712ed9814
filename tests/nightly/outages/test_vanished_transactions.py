"""A host that vanishes at the commit of each transaction of the hub: the server has released its locks within the
limit, and the step can be done again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from events.intake import publish
from tests.conformance import world
from tests.conformance.crashes import statements_of
from tests.conformance.steps import STEPS, Step
from tests.conformance.test_crash_points import fresh_type
from tests.processes.support import until
from webhookhub.db import vendors

pytestmark = [pytest.mark.mysql_family, pytest.mark.timeout(120)]

LIMIT_SECONDS = 20
IDLE_SECONDS = LIMIT_SECONDS - vendors.STATEMENT_SECONDS
# Not innodb_trx: while it is read often, it shows an old copy.
OPEN = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"


class Vanishing:
    """Runs `work` in a thread whose connection falls silent at its first commit: nothing more is sent or received."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
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
        usual, locked = own._commit, []

        def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            if own.in_atomic_block and locks(sql) and context["cursor"].rowcount > 0:
                locked.append(sql)
            return result

        own.execute_wrappers.append(watch)

        def commit() -> None:
            if locked and not self._silent.is_set():
                self.connection_id = own.connection.thread_id()
                self._silent.set()
                self._ended.wait(120)
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


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_the_locks_of_a_vanished_host_end_within_the_limit(committed: None, step: Step):
    if not any(each.in_transaction and locks(each.sql) for each in statements_of(step.prepare(fresh_type()))):
        pytest.skip("single statements: each ends its transaction itself")
    work = step.prepare(fresh_type())
    with Vanishing(work) as vanishing:
        assert vanishing.is_silent
        vanished_at = time.monotonic()
        assert is_open(vanishing.connection_id)
        publish("order.meanwhile", {})
        assert is_open(vanishing.connection_id), "publishing has waited for its locks"
        until(lambda: not is_open(vanishing.connection_id), "the server ends the session", LIMIT_SECONDS)
        assert time.monotonic() - vanished_at > IDLE_SECONDS - 2
        step.recover()
        work()
        world.run_to_end()
