"""Two run_workflows processes, killed (SIGKILL) repeatedly: every run ends once, with the right outcome."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.workflows.lives import DEFINITIONS
from tests.workflows.support import instance, published, tell, told_before, tracked
from workflows.models import Instance, WorkflowInbox
from workflows.registry import registry
from workflows.replay import replay
from workflows.scenarios import happy
from workflows.state import COMPENSATED, DONE, FAILURE, UNDONE

from .support import Processes, Running, until

# On a server, test_torture.py kills them.
pytestmark = [pytest.mark.every_engine, pytest.mark.sqlite_only]

ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")
SMALL = ("--batch-size", "5", "--interval", "0.02")
KILLS = 3
RUNS = 12

COMPLETE = happy(ORDER)
COMPENSATE = [("order", DONE), ("inventory", DONE), ("payment", FAILURE), ("inventory", UNDONE), ("order", UNDONE)]


# Of three runs, one completes, one is compensated and one times out.
OVERDUE = [f"{round}-{number}" for round in range(KILLS) for number in range(RUNS) if number % 3 == 2]


def start_runs(round: int) -> None:
    """Runs that end without a time-out; their events arrive in random order."""
    numbers = [number for number in range(RUNS) if number % 3 != 2]
    steps = [(step, f"{round}-{number}") for number in numbers for step in (COMPLETE, COMPENSATE)[number % 3]]
    random.shuffle(steps)
    for step, key in steps:
        tell(ORDER, step, key)


def all_ended() -> bool:
    statuses = Counter(Instance.objects.values_list("status", flat=True))
    third = KILLS * RUNS // 3
    ended = statuses == {"COMPLETED": third, COMPENSATED: third, "COMPENSATING": third}
    return ended and not WorkflowInbox.objects.exists()


def some_work_of(victim: Running) -> Callable[[], bool]:
    """True after a random number of log lines, or when nothing is left to do."""
    lines = victim.lines + random.randint(2, 12)
    return lambda: victim.lines >= lines or not WorkflowInbox.objects.exists()


@pytest.mark.requirement("R5-1b", "R5-3.6a")
def test_killed_trackers_neither_lose_nor_repeat(processes: Processes):
    tracked()
    # First, because these events are the oldest, and ids are ordered by time.
    for done in COMPLETE[:2]:
        for key in OVERDUE:
            told_before(ORDER, done, key, timedelta(minutes=11))
    running = [processes.start("run_workflows", *SMALL) for _ in range(2)]
    for round in range(KILLS):
        start_runs(round)
        victim = running.pop(0)
        until(some_work_of(victim), "the process has done some work")
        victim.kill()
        running.append(processes.start("run_workflows", *SMALL))
    until(all_ended, "every workflow run ends")

    for round in range(KILLS):
        for number in range(RUNS):
            key = f"{round}-{number}"
            events = published(key)
            assert len(events) == len(set(events)), "something was published twice"
            match number % 3:
                case 0:
                    assert events == [("saga.completed", None)]
                case 1:
                    assert events[-1] == ("saga.failed", "payment")
                case 2:
                    assert events[0] == ("saga.timed_out", "payment")
                    assert instance(key).current_step == "inventory"
    assert [each for batch in replay(registry(), 500) for each in batch.differences] == []
