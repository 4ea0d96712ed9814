"""The Dockerfile copies what exists and what the package needs, and runs as another user than root."""

from __future__ import annotations

import subprocess

import pytest
from django.core.management import get_commands

from tests.test_packaging import APPS
from webhookhub.conf import variable

from . import dockerfile
from .dockerfile import ROOT, copy_of, ignored, stages

STAGES = stages(dockerfile.FILE.read_text())
LAST = STAGES[-1]
COPIED = [copy_of(value) for stage in STAGES for value in stage.values("COPY")]
SOURCES = [source for copy in COPIED if not copy.stage for source in copy.sources]


def test_copied_files_exist_and_are_not_ignored():
    assert SOURCES
    for source in SOURCES:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    names = {stage.name for stage in STAGES[:-1]}
    assert {copy.stage for copy in COPIED if copy.stage} <= names


def test_every_package_of_the_hub_is_copied():
    assert {*APPS, "templates", "locale", "pyproject.toml", "setup.py", "constraints.txt"} <= set(SOURCES)


def test_nothing_else_is_in_the_build_context():
    kept = {path.name for path in ROOT.iterdir() if not ignored(path.name)}

    assert kept <= set(SOURCES)
    assert ignored("webhookhub/client/client.py")
    assert ignored("events/__pycache__/models.cpython-311.pyc")
    assert not ignored("webhookhub/conf.py")


def test_it_runs_as_a_user_of_its_own():
    user, group = LAST.last("USER").split(":")

    assert int(user) > 0
    assert int(group) > 0
    assert f"--uid {user} " in " ".join(LAST.values("RUN"))
    steps = [name for name, _ in LAST.steps]
    assert "RUN" not in steps[steps.index("USER") :]


def test_packages_are_pinned():
    installs = [value for stage in STAGES for value in stage.values("RUN") if "pip install" in value]

    assert installs
    assert all("-c constraints.txt" in value for value in installs)


def test_no_compiler_is_in_the_last_stage():
    assert "build-essential" not in " ".join(LAST.values("RUN"))


def test_its_command_exists_and_its_health_check_asks_that_address():
    command = LAST.command("CMD")

    assert LAST.command("ENTRYPOINT") == ["webhookhub"]
    assert command[0] in get_commands()
    port = command[-1].rpartition(":")[2]
    [probes] = [value for value in LAST.values("ENV") if value.startswith(f"{variable('probes')}=")]
    probes_port = probes.rpartition(":")[2]
    assert LAST.last("EXPOSE") == f"{port} {probes_port}"
    assert f":{probes_port}/healthz" in LAST.last("HEALTHCHECK")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_scripts_are_valid_shell():
    scripts = [*(ROOT / "deploy").rglob("*.sh")]

    assert scripts
    for script in scripts:
        subprocess.run(["sh", "-n", str(script)], check=True)
