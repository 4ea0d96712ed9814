"""A wrong setting ends every command with one sentence and the exit code 78 (gunicorn: 3), without a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from webhookhub.runner.supervisor import GUNICORN_BOOT_ERROR

SERVER = "mysql://hub:hub@127.0.0.1/webhookhub"
RUN_WEB = ("manage.py", "run_web", "127.0.0.1:1")
WEB = ("-m", "gunicorn", "webhookhub.wsgi", "--bind", "127.0.0.1:0", "--log-level", "critical")


def errors(*command: str, **environment: str) -> str:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, *(command or ("manage.py", "run_router", "--once"))],
        cwd=settings.BASE_DIR,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == (GUNICORN_BOOT_ERROR if "gunicorn" in command else os.EX_CONFIG), done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"DATABASE_URL": SERVER}, "WEBHOOKHUB_SECRET_KEY is not set: "),
        ({"DATABASE_URL": SERVER, "WEBHOOKHUB_SECRET_KEY": "x"}, "WEBHOOKHUB_ENCRYPTION_KEYS is not set: "),
        ({"DATABASE_URL": "postgres://hub:hub@127.0.0.1/webhookhub"}, "DATABASE_URL: "),
        ({"DATABASE_URL": "mysql://hub:hub@127.0.0.1:port/webhookhub"}, "DATABASE_URL cannot be read: "),
        ({"WEBHOOKHUB_LEASE": "soon"}, "WEBHOOKHUB_LEASE='soon': it must be "),
        ({"WEBHOOKHUB_LEASE": "20"}, "WEBHOOKHUB_LEASE is 20 s: it must be longer than "),
        ({"WEBHOOKHUB_DEBUG": "maybe"}, "WEBHOOKHUB_DEBUG='maybe': it must be one of "),
        ({"WEBHOOKHUB_LEASES": "1"}, "WEBHOOKHUB_LEASES is not a setting of the hub; did you mean WEBHOOKHUB_LEASE?"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(environment: dict[str, str], message: str):
    [line] = errors(**environment).splitlines()

    assert line.startswith(f"The hub is not configured: {message}")


@pytest.mark.parametrize(
    "url", ["mysql://hub:hunter/2@127.0.0.1/webhookhub", "mysql//hub:hunter2@127.0.0.1/webhookhub"]
)
def test_a_password_in_a_url_that_cannot_be_read_is_not_shown(url: str):
    assert "hunter" not in errors(DATABASE_URL=url)


@pytest.mark.parametrize(
    "command",
    [("manage.py", "migrate"), ("manage.py", "check"), ("manage.py", "audit"), RUN_WEB, WEB, (*WEB, "--preload")],
)
def test_every_command_and_the_web_server_refuse_a_wrong_setting(command: tuple[str, ...]):
    [line] = errors(*command, WEBHOOKHUB_ALLOWED_HOSTS="https://hub").splitlines()

    assert line.startswith("The hub is not configured: WEBHOOKHUB_ALLOWED_HOSTS='https://hub': it must be ")


def test_a_checkout_keeps_its_database_whatever_the_current_directory_is(tmp_path: Path):
    show = "from webhookhub import settings; print(settings.DATABASES['default']['NAME'])"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(settings.BASE_DIR)}
    done = subprocess.run([sys.executable, "-c", show], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.stdout.strip() == str(settings.BASE_DIR / "var" / "hub.sqlite3"), done.stderr


def test_an_installed_package_keeps_its_database_in_the_current_directory(tmp_path: Path):
    site, home = tmp_path / "site-packages", tmp_path / "home"
    site.mkdir()
    home.mkdir()
    for folder in settings.BASE_DIR.iterdir():
        if (folder / "__init__.py").exists():
            shutil.copytree(folder, site / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (home / ".env").write_text("WEBHOOKHUB_BATCH_SIZE=7\n")
    show = "from webhookhub import settings; print(settings.WEBHOOKHUB.batch_size)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", show], cwd=home, env=environment, capture_output=True, text=True)

    assert done.stdout.strip() == "7", done.stderr
    assert (home / "var" / "encryption-key").exists()
