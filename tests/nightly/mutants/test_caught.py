"""Removes one guard at a time from a copy of the product: a test of the default suite must then fail.

It must fail by an assertion or by a rule of the database, and pass without the mutant.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from . import outcome
from .mutants import ALL, ROOT, Mutant
from .outcome import Outcome

pytestmark = pytest.mark.timeout(700)
LIMIT_SECONDS = 300
PYTEST = [sys.executable, "-m", "pytest", "-q"]


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git knows or would add."""
    folder = tmp_path_factory.mktemp("mutants")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    # Compiles everything once. The mutants' runs write no bytecode: it could outlive the mutant.
    subprocess.run([*PYTEST, "--collect-only", "tests"], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(copy: Path, mutant: Mutant):
    file = copy / mutant.file
    source = file.read_text()
    file.write_text(mutant.mutated(source))
    try:
        found = run(copy, mutant.tests)
        if not found.green and not found.caught:
            # The first failure may be an error on the way; a later one may be an assertion.
            found = run(copy, mutant.tests, until_first_failure=False)
    finally:
        file.write_text(source)
    assert found.caught, str(found)
    assert run(copy, [found.test]).green, f"{found.test} fails without the mutant, too"


def run(folder: Path, tests: Sequence[str], until_first_failure: bool = True) -> Outcome:
    command = [*PYTEST, "--show-capture=no", "-o", "timeout=100"]
    if until_first_failure:
        command.append("-x")
    # One line of the summary for each test, never folded.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    try:
        done = subprocess.run(
            [*command, *tests], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Outcome(outcome.NO_END, f"within {LIMIT_SECONDS} s")
    return outcome.read(done.returncode, done.stdout + done.stderr)
