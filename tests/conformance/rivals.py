"""Concurrent work on a second real connection, in a thread, ordered by statements and not by time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from django.db import connection, connections

T = TypeVar("T")
BOUND_SECONDS = 60.0


class Rival(Generic[T]):
    """Runs `work` in a thread. With `before` or `after` (the beginning of a statement, without quotes) it stops at the
    first such statement; `reached()` waits until then, `result()` lets it continue."""

    def __init__(self, work: Callable[[], T], *, before: str | None = None, after: str | None = None) -> None:
        self._work = work
        self._before = before
        self._after = after
        self._stopped = threading.Event()
        self._reached = False
        self._go = threading.Event()
        self._result: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Rival[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive(), "a rival did not end"

    def reached(self) -> None:
        assert self._stopped.wait(BOUND_SECONDS), "the rival did not reach its statement"
        assert self._reached, f"the rival ended before its statement: {self._result}"

    def result(self) -> T:
        """Let it continue, and wait for its result."""
        self._go.set()
        ended, _ = wait([self._result], BOUND_SECONDS)
        assert ended, f"the rival has been blocked for {BOUND_SECONDS:g} s"
        return self._result.result()

    def _run(self) -> None:
        try:
            with connection.execute_wrapper(self._watch):
                result = self._work()
        except BaseException as error:  # noqa: BLE001  # raised by result()
            connections.close_all()
            self._result.set_exception(error)
        else:
            connections.close_all()
            self._result.set_result(result)
        self._stopped.set()

    def _watch(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statement = unquoted(sql)
        if self._before is not None and statement.startswith(self._before):
            self._stop()
        result = execute(sql, params, many, context)
        if self._after is not None and statement.startswith(self._after):
            self._stop()
        return result

    def _stop(self) -> None:
        if not self._stopped.is_set():
            self._reached = True
            self._stopped.set()
            assert self._go.wait(BOUND_SECONDS), "the rival was not continued"


def together(*works: Callable[[], T]) -> list[T]:
    """Run all concurrently, each on its own connection; returns their results in order."""
    barrier = threading.Barrier(len(works))

    def at_once(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            connection.ensure_connection()
            barrier.wait(BOUND_SECONDS)
            return work()

        return run

    rivals = [Rival(at_once(work)) for work in works]
    for rival in rivals:
        rival.__enter__()
    try:
        return [rival.result() for rival in rivals]
    finally:
        for rival in rivals:
            rival.__exit__()


def after(rival: Rival[Any], work: Callable[[], T]) -> Callable[[], T]:
    """`work`, started when `rival` has reached its statement."""

    def run() -> T:
        rival.reached()
        return work()

    return run


def elsewhere(work: Callable[[], T]) -> T:
    """Run `work` to its end on another connection."""
    with Rival(work) as rival:
        return rival.result()


def rows_are_locked_one_by_one() -> bool:
    """Whether a second writer can work beside an open transaction."""
    return connection.features.has_select_for_update_skip_locked


def unquoted(sql: str) -> str:
    return sql.replace("`", "").replace('"', "")
