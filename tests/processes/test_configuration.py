"""What is wrong in the environment is said in one sentence, not in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.conf import settings

from webhookhub.exit_codes import UNFIT

SERVER = "mysql://hub:hub@127.0.0.1/webhookhub"


def answer(**environment: str) -> str:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "manage.py", "run_router", "--once"]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env={**inherited, **environment}, capture_output=True, text=True
    )
    assert done.returncode == UNFIT, done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"DATABASE_URL": SERVER}, "WEBHOOKHUB_SECRET_KEY is not set: "),
        ({"DATABASE_URL": SERVER, "WEBHOOKHUB_SECRET_KEY": "x"}, "WEBHOOKHUB_ENCRYPTION_KEYS is not set: "),
        ({"DATABASE_URL": "postgres://hub:hub@127.0.0.1/webhookhub"}, "DATABASE_URL: "),
        ({"DATABASE_URL": "mysql://hub:hub@127.0.0.1:port/webhookhub"}, "DATABASE_URL cannot be read: "),
        ({"WEBHOOKHUB_LEASE": "soon"}, "WEBHOOKHUB_LEASE='soon': it must be "),
        ({"WEBHOOKHUB_LEASES": "1"}, "WEBHOOKHUB_LEASES is not a setting of the hub; did you mean WEBHOOKHUB_LEASE?"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(environment: dict[str, str], said: str):
    [line] = answer(**environment).splitlines()

    assert line.startswith(f"The hub is not configured: {said}")


@pytest.mark.parametrize(
    "url", ["mysql://hub:hunter/2@127.0.0.1/webhookhub", "mysql//hub:hunter2@127.0.0.1/webhookhub"]
)
def test_a_password_in_a_url_that_cannot_be_read_is_not_shown(url: str):
    assert "hunter" not in answer(DATABASE_URL=url)
