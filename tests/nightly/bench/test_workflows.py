"""`python -m tools.bench.workflows` as a process with a private server and small numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nightly.bench.test_run import ROOT, environment

pytestmark = pytest.mark.usefixtures("server_program")


def bench(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.bench.workflows", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(scratch), capture_output=True, text=True, check=False)


def figure(shown: str, what: str) -> float:
    found = re.search(rf"^  {re.escape(what)} +([\d.,]+)", shown, re.MULTILINE)
    assert found, f"{what!r} is not in: {shown}"
    return float(found[1].replace(",", ""))


def test_tracking_is_measured_and_nothing_is_left(scratch: Path):
    done = bench(scratch, "--quick")

    assert done.returncode == 0, done.stdout + done.stderr
    assert figure(done.stdout, "tracked events/s") > 0
    for what in ("deliveries/s with tracking", "deliveries/s without", "with ÷ without"):
        assert figure(done.stdout, what) > 0
    noticed = figure(done.stdout, "seconds to notice one of 50, the median")
    assert 0 <= noticed <= figure(done.stdout, "seconds to notice, at most, with 1,000 open")
    assert list(scratch.iterdir()) == []


def test_an_unknown_scenario_is_named_with_those_there_are(scratch: Path):
    done = bench(scratch, "trakced")

    assert done.returncode == 2
    assert "'trakced'; there are tracked, untracked, noticed" in done.stderr
