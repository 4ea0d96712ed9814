"""The contents of both distributions: everything the hub needs, no tools, no tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import webhookhub

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "webhookhub" / "client"
APPS = ("webhookhub", "events", "subscriptions", "sagas", "jobs", "deadletters", "workflows", "api")


def built(project: Path, folder: Path) -> set[str]:
    """The files that the wheel of a project would contain."""
    script = "import setuptools; setuptools.setup()" if project == CLIENT else (project / "setup.py").read_text()
    command = ["egg_info", f"--egg-base={folder}", "build", f"--build-base={folder}/base", f"--build-lib={folder}/lib"]
    subprocess.run([sys.executable, "-c", script, "-q", *command], cwd=project, check=True, capture_output=True)
    return {str(file.relative_to(folder / "lib")) for file in (folder / "lib").rglob("*") if file.is_file()}


def committed(*paths: str) -> set[str]:
    files = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(files.stdout.split())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_hub_contains_its_apps_templates_translations_and_nothing_else(tmp_path: Path):
    apps = {file for file in committed(*APPS) if not file.startswith("webhookhub/client/")}
    shared = {file for file in committed("templates", "locale") if not file.endswith(".po")}

    assert built(ROOT, tmp_path) == apps | {f"webhookhub/{file}" for file in shared}


def test_the_client_contains_its_modules_only(tmp_path: Path):
    modules = {f"webhookhub_client/{file.name}" for file in CLIENT.glob("*.py")}

    assert built(CLIENT, tmp_path) == modules | {"webhookhub_client/py.typed"}


def test_both_distributions_have_the_same_version_and_the_client_needs_requests_only():
    hub, client = (tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, CLIENT))

    assert hub["version"] == client["version"] == webhookhub.__version__
    assert [requirement for requirement in client["dependencies"] if not requirement.startswith("requests")] == []


def test_both_distributions_have_the_license():
    text = (ROOT / "LICENSE").read_text()

    assert "MIT License" in text
    assert "WebhookHub contributors" in text
    assert os.path.realpath(CLIENT / "LICENSE") == str(ROOT / "LICENSE")
