"""The previous release, built from the repository's history."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Change both with each release.
VERSION = "0.1.0"
COMMIT = "e2a4844ced067737b0af0410d5477ada47319e28"


class PreviousRelease:
    """The files of its wheel, run with the packages of this environment."""

    def __init__(self, folder: Path) -> None:
        self._source, self._wheel = folder / "source", folder / "wheel"
        _extract(self._source)
        command = ["egg_info", f"--egg-base={folder}", "build", f"--build-base={folder}/base"]
        command += [f"--build-lib={self._wheel}"]
        subprocess.run([sys.executable, "setup.py", "-q", *command], cwd=self._source, check=True, capture_output=True)

    @property
    def variables(self) -> dict[str, str]:
        """Without the current folder, which has the files of this version. The tools are those of that version, too."""
        return {"PYTHONPATH": os.pathsep.join([str(self._wheel), str(self._source)]), "PYTHONSAFEPATH": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "webhookhub.command_line", *arguments]


@cache
def has_history() -> bool:
    command = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


def require_history() -> None:
    if not has_history():
        pytest.skip(f"the history of the repository does not go back to version {VERSION}")


def stored_file(path: str) -> bytes:
    """A file as it was in that release."""
    return subprocess.run(["git", "show", f"{COMMIT}:{path}"], cwd=ROOT, check=True, capture_output=True).stdout


def stored_paths() -> list[str]:
    command = ["git", "ls-tree", "-r", "--name-only", COMMIT]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.split("\n")[:-1]


def _extract(folder: Path) -> None:
    archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
