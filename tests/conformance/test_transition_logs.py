"""However many orchestrators run, and even if one is killed, each transition of a saga is logged once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sagas.dispatch import dispatch
from sagas.models import Saga
from webhookhub.logs import Log

from . import world
from .crashes import crash, points_of_change, statements_of
from .rivals import Rival, together
from .world import BATCH

pytestmark = pytest.mark.every_engine

STAGES = {"ok": "Completed", "retry": "PendingRetry", "dead": "DeadLettered"}
Lines = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def lines(committed: None, hub_settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What the orchestrators log, each line with its message; nothing is due again until a test says so."""
    hub_settings(base_delay=timedelta(hours=1))
    logged: Lines = []
    for module in ("sagas.dispatch", "sagas.settle"):
        monkeypatch.setattr(f"{module}.log", lambda message, **fields: logged.append({"message": message, **fields}))
    yield logged
    for line in logged:
        assert line["correlation_id"]
        assert line["job_id"]


def routed(events: int = 1) -> None:
    world.subscribe(*STAGES)
    world.publish_some(*(f"e{n}" for n in range(events)))
    world.route()


def finished(events: int = 1) -> None:
    routed(events)
    dispatch(BATCH)
    world.deliver()


def assert_logged_once(lines: Lines, *messages: Log) -> None:
    found = Counter((line["saga_id"], line["delivery_status"]) for line in lines if line["message"] in messages)
    assert found == Counter(Saga.objects.values_list("id", "status"))


def assert_dispatched_once(lines: Lines) -> None:
    assert_logged_once(lines, Log.SAGA_DISPATCHED)


def assert_settled_once(lines: Lines) -> None:
    assert_logged_once(lines, Log.SAGA_COMPLETED, Log.SAGA_RETRY_SCHEDULED, Log.SAGA_DEAD_LETTERED)
    assert {line["delivery_status"] for line in lines if "error_code" in line} == set(STAGES.values())
    for line in lines:
        assert ("next_attempt_at" in line) == (line["message"] is Log.SAGA_RETRY_SCHEDULED)


def test_one_orchestrator_logs_each_transition(lines: Lines):
    finished()
    assert_dispatched_once(lines)
    lines.clear()
    world.settle()
    assert_settled_once(lines)
    world.settle()
    assert_settled_once(lines)


def test_concurrent_orchestrators_log_each_dispatch_once(lines: Lines):
    routed(events=20)
    together(*[lambda: dispatch(BATCH)] * 4)
    assert_dispatched_once(lines)


def test_concurrent_orchestrators_log_each_result_once(lines: Lines):
    finished(events=20)
    lines.clear()
    together(*[world.settle] * 4)
    assert_settled_once(lines)


@pytest.mark.parametrize("batch_size", [1, BATCH])
def test_a_dispatch_is_logged_by_the_orchestrator_that_made_it(lines: Lines, batch_size: int):
    routed()
    with Rival(lambda: dispatch(BATCH), before="UPDATE webhook_delivery_sagas") as slow:
        slow.reached()
        dispatch(batch_size)
        assert len(lines) == min(batch_size, 3)
        slow.result()
    assert_dispatched_once(lines)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_result_that_two_orchestrators_have_read_is_logged_once(lines: Lines, where: str):
    finished()
    lines.clear()
    with Rival(world.settle, **{where: "UPDATE webhook_delivery_sagas"}) as slow:
        slow.reached()
        world.settle()
        slow.result()
    assert_settled_once(lines)


def test_a_result_whose_orchestrator_was_killed_is_logged_by_the_next_one(lines: Lines):
    finished()
    for point in points_of_change(statements_of(world.settle)):
        world.publish_some(f"killed{point.statement}{point.executed}")
        world.route()
        dispatch(BATCH)
        world.deliver()
        before = set(Saga.objects.exclude(status="InProgress").values_list("id", flat=True))
        lines.clear()
        crash(world.settle, point)
        world.settle()
        found = Counter(line["saga_id"] for line in lines)
        assert found == Counter(Saga.objects.exclude(id__in=before).values_list("id", flat=True)), point


def test_released_attempts_are_not_logged_at_the_level_info():
    assert Log.JOB_RELEASED.level == logging.DEBUG
