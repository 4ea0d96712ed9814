"""How a command ends when the database fails."""

from __future__ import annotations

import os

import pytest
from django.db import Error, InterfaceError, OperationalError

from webhookhub import command_line


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OperationalError(2003, "down"), os.EX_UNAVAILABLE, "cannot be reached: (2003, 'down'). Check DATABASE_URL."),
        (InterfaceError(0, ""), os.EX_UNAVAILABLE, "cannot be reached"),
        (OperationalError(1045, "wrong"), os.EX_UNAVAILABLE, "cannot be reached"),
        (OperationalError(1142, "no"), os.EX_CONFIG, "may not do this: (1142, 'no'). See manage.py grant_roles."),
        (OperationalError(1290, "replica"), os.EX_TEMPFAIL, "cannot do this now: (1290, 'replica'). Retry later."),
        (OperationalError(3032, "offline"), os.EX_TEMPFAIL, "cannot do this now"),
        (OperationalError(1114, "full"), os.EX_TEMPFAIL, "cannot do this now"),
        (OperationalError(1040, "many"), os.EX_TEMPFAIL, "cannot do this now"),
        (OperationalError(1213, "deadlock"), os.EX_TEMPFAIL, "cannot do this now"),
    ],
)
def test_a_failing_database_is_one_line_and_an_exit_code(
    error: Error, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(arguments: list[str]) -> None:
        raise error

    monkeypatch.setattr(command_line, "execute_from_command_line", fail)
    with pytest.raises(SystemExit) as ended:
        command_line.main()

    assert ended.value.code == code
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_any_other_error_of_the_database_is_shown_in_full(monkeypatch: pytest.MonkeyPatch):
    def fail(arguments: list[str]) -> None:
        raise OperationalError(1317, "interrupted")

    monkeypatch.setattr(command_line, "execute_from_command_line", fail)
    with pytest.raises(OperationalError):
        command_line.main()
