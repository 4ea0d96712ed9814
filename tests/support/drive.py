"""Runs the whole pipeline in one process until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Callable

from events.models import RoutingInbox
from events.routing import Router
from jobs.cleaner import clean
from jobs.worker import Worker
from sagas.dispatch import admit, dispatch
from sagas.flow import Flow
from sagas.models import Saga
from sagas.settle import Settler
from sagas.transitions import TERMINAL


def until(condition: Callable[[], bool], worker_id: str = "test-worker", turns: int = 1000) -> None:
    """Runs every loop until the condition holds; raises AssertionError if it never does."""
    router, settler, worker = Router(), Settler(), Worker(worker_id)
    try:
        for _ in range(turns):
            router.route(100)
            dispatch(100)
            admit(100, Flow())
            worker.turn(100)
            settler.settle(100)
            clean(100)
            if condition():
                return
        raise AssertionError(f"the condition does not hold after {turns} turns")
    finally:
        worker.close()


def until_terminal(worker_id: str = "test-worker") -> None:
    until(all_terminal, worker_id)


def all_terminal() -> bool:
    return not RoutingInbox.objects.exists() and not Saga.objects.exclude(status__in=TERMINAL).exists()
