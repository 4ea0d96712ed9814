"""`make setup` and `make clean`, in a temporary folder with fake commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DRIVER_PACKAGES = "build-essential pkg-config libmariadb-dev python3-dev"
# The fake Python: has the driver after pip has installed it, and records the calls of pip.
PYTHON = """
case "$*" in
*"import MySQLdb"*) test -e driver ;;
*"-m pip"*mysql*) echo "$*" >>installed; test ! -e broken-compiler && touch driver ;;
*"-m pip"*) echo "$*" >>installed ;;
*) true ;;
esac
"""


class Machine:
    """A machine with few commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "hub"
        self._commands = folder / "bin"
        self._commands.mkdir()
        for name in ("sh", "make", "touch", "rm", "sed", "grep"):
            (self._commands / name).symlink_to(str(shutil.which(name)))
        self.has("id", "echo 1000")
        (self.folder / ".venv" / "bin").mkdir(parents=True)
        for name in ("Makefile", "setup.sh", "pyproject.toml", "setup.py", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder)
        self._script(self.folder / ".venv" / "bin" / "python", PYTHON)
        (self.folder / ".venv" / ".packages").touch()

    def has(self, command: str, script: str = "true") -> None:
        self._script(self._commands / command, script)

    def has_build_tools(self) -> None:
        self.has("cc")
        self.has("pkg-config")

    def make(self, target: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", target],
            cwd=self.folder,
            env={"PATH": str(self._commands)} | environment,
            capture_output=True,
            text=True,
        )

    @property
    def installed(self) -> str:
        record = self.folder / "installed"
        return record.read_text() if record.exists() else ""

    @staticmethod
    def _script(path: Path, script: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_embedded_database_needs_no_driver(machine: Machine):
    done = machine.make("setup")

    assert (done.returncode, done.stdout, done.stderr, machine.installed) == (0, "", "", "")


def test_the_driver_is_installed_as_soon_as_it_can_be_built_and_only_once(machine: Machine):
    machine.make("setup")
    machine.has_build_tools()

    assert machine.make("setup").returncode == 0
    assert ".[mysql]" in machine.installed

    again = machine.make("setup")
    assert (again.returncode, again.stdout) == (0, "")
    assert machine.installed.count("\n") == 1


@pytest.mark.parametrize("where", ["environment", ".env"])
def test_a_missing_driver_is_reported_with_the_packages_to_install(machine: Machine, where: str):
    settings = {"DATABASE_URL": "mysql://hub@127.0.0.1/hub"}
    if where == ".env":
        (machine.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    done = machine.make("setup", **(settings if where == "environment" else {}))

    assert done.returncode != 0
    assert DRIVER_PACKAGES in done.stderr
    assert machine.installed == ""


def test_root_installs_the_drivers_packages_and_the_driver(machine: Machine):
    machine.has("id", "echo 0")
    machine.has("apt-get", f'echo "$*" >>{machine.folder}/system-packages')

    done = machine.make("setup", DATABASE_URL="mysql://hub@127.0.0.1/hub")

    assert done.returncode == 0, done.stderr
    assert (machine.folder / "system-packages").read_text().endswith(f"{DRIVER_PACKAGES}\n")
    assert ".[mysql]" in machine.installed


def test_a_driver_that_cannot_be_built_fails_only_with_a_server(machine: Machine):
    machine.has_build_tools()
    (machine.folder / "broken-compiler").touch()

    assert machine.make("setup").returncode == 0
    refused = machine.make("setup", DATABASE_URL="mysql://hub@127.0.0.1/hub")
    assert refused.returncode != 0
    assert "could not be built" in refused.stderr


def test_the_benchmark_runs_without_redis(machine: Machine):
    machine.has("mariadbd")
    machine.has_build_tools()
    machine.has("mkdir")

    done = machine.make("bench")

    assert done.returncode == 0, done.stderr
    assert "redis-server" in done.stderr
    assert "Celery is not measured" in done.stdout
    assert ".[mysql,bench]" in machine.installed


def test_clean_keeps_the_repositorys_files(machine: Machine):
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    made = [folder for folder in ignored if "*" not in folder and folder not in ("__pycache__", ".env")]
    assert {".venv", "var", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"} <= set(made)
    for folder in made:
        (machine.folder / folder / "within").mkdir(parents=True)

    assert machine.make("clean").returncode == 0

    kept = ["Makefile", "constraints.txt", "pyproject.toml", "setup.py", "setup.sh"]
    assert sorted(os.listdir(machine.folder)) == kept
