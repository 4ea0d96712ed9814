"""Runs `python -m tools.bench.workflows` on its private server with small sizes."""

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


def value(output: str, name: str) -> float:
    match = re.search(rf"^  {re.escape(name)} +([\d.,]+)", output, re.MULTILINE)
    assert match, f"{name!r} is not in: {output}"
    return float(match[1].replace(",", ""))


def test_tracking_is_measured_and_nothing_is_left_behind(scratch: Path):
    done = bench(scratch, "--quick")

    assert done.returncode == 0, done.stdout + done.stderr
    assert value(done.stdout, "tracked events/s") > 0
    for name in ("deliveries/s with tracking", "deliveries/s without", "with ÷ without"):
        assert value(done.stdout, name) > 0
    noticed = value(done.stdout, "seconds to notice one of 50, median")
    assert 0 <= noticed <= value(done.stdout, "seconds to notice, maximum, with 1,000 open")
    assert list(scratch.iterdir()) == []


def test_an_unknown_scenario_is_refused_with_a_list(scratch: Path):
    done = bench(scratch, "trakced")

    assert done.returncode == 2
    assert "unknown scenario 'trakced'; choose from tracked, untracked, noticed" in done.stderr
