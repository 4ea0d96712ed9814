"""When a step of a loop runs, and when it polls."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections

from webhookhub.runner.database import Database
from webhookhub.runner.managed_step import ManagedStep
from webhookhub.runner.step import Step

pytestmark = pytest.mark.django_db

OFTEN = 0.02
# Enough for a busy machine.
MARGIN_SECONDS = 5.0


class Polled(Step):
    """Records whether each run was a poll."""

    def __init__(self) -> None:
        self.polls: list[bool] = []

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        self.polls.append(poll)
        return 0


@pytest.fixture
def step() -> Polled:
    return Polled()


@pytest.fixture
def managed(step: Polled) -> Iterator[ManagedStep]:
    usual, own = connections[DEFAULT_DB_ALIAS], connection.copy()
    created = ManagedStep("orchestrator", lambda name: step, Database(own), OFTEN)
    created.start(step, lambda: None)
    yield created
    created.close()
    connections[DEFAULT_DB_ALIAS] = usual
    own.close()


def test_a_step_polls_at_its_interval_however_many_hints_arrive(managed: ManagedStep, step: Polled):
    until = time.monotonic() + MARGIN_SECONDS
    while step.polls.count(True) < 3:
        assert time.monotonic() < until, f"{step.polls.count(True)} polls in {len(step.polls)} runs"
        managed.hint("results", [1])
        managed.run(10)

    assert step.polls[0], "the first run is a poll"
    assert False in step.polls, "a run with hints before the next poll is due does not poll"
