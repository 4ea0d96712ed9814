"""How a run_* command ends when its step fails."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


@pytest.mark.usefixtures("committed")
def test_an_interrupted_statement_ends_the_process():
    """It is not waited for like a lost database: the statement may be interrupted each time."""
    runs = []

    class Interrupted(Step):
        def run(self, batch_size: int) -> int:
            runs.append(batch_size)
            raise OperationalError(1317, "Query execution was interrupted")

    class Command(LoopCommand):
        kind = "router"

        def make_step(self, process_name: str) -> Step:
            return Interrupted()

    with pytest.raises(CommandError, match="Query execution was interrupted"):
        call_command(Command(), batch_size=7)

    assert runs == [7]
