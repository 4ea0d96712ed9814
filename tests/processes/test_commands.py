"""A command that cannot do its work prints one line and no traceback."""

from __future__ import annotations

import pytest

from .support import Processes

VERBS = [
    ("api_key", "list"),
    ("publish_event", "a.b", "{}"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_command_without_its_database_prints_one_line(processes: Processes, verb: tuple[str, ...]):
    command = processes.start(*verb, DATABASE_URL="mysql://hub:hub@127.0.0.1:1/none")

    assert command.wait() == 69
    assert "The database cannot be reached" in command.errors
    assert "Traceback" not in command.errors
