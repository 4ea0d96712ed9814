"""How a run_* command ends when its step fails."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError

from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


@pytest.mark.usefixtures("committed")
def test_an_interrupted_statement_ends_the_process():
    """It is not waited for like a lost database: the statement may be interrupted each time."""
    runs = []

    class Interrupted(Step):
        def run(self, batch_size: int, *, poll: bool = True) -> int:
            runs.append(batch_size)
            raise OperationalError(1317, "Query execution was interrupted")

    class Command(LoopCommand):
        kind = "router"

        def make_step(self, process_name: str) -> Step:
            return Interrupted()

    with pytest.raises(CommandError, match="Query execution was interrupted"):
        call_command(Command(), batch_size=7)

    assert runs == [7]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("code", [0, 2013, 1290, 1836, 3032, 6400, 3100, 1047, 1114, 1213, 1040, 1969])
def test_a_database_that_cannot_work_now_is_waited_for(code: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("webhookhub.runner.database.FIRST_RECONNECT_SECONDS", 0.01)
    runs = []

    class Recovers(Step):
        def run(self, batch_size: int, *, poll: bool = True) -> int:
            runs.append(batch_size)
            if len(runs) == 1:
                raise InterfaceError(0, "") if code == 0 else OperationalError(code, "not now")
            return 0

    class Command(LoopCommand):
        kind = "router"

        def make_step(self, process_name: str) -> Step:
            return Recovers()

    call_command(Command(), batch_size=7, once=True)

    assert runs == [7, 7]
