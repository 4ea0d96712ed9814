"""Runs `python -m tools.bench` on its private server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from webhookhub.conf import KINDS

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("server_program")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tools.bench", *arguments]


def environment(scratch: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("WEBHOOKHUB_", "DJANGO_"))}
    return inherited | {"TMPDIR": str(scratch)}


def test_drain_and_floor_are_compared_and_nothing_is_left_behind(tmp_path: Path, scratch: Path):
    file, plots, profiles = tmp_path / "results.json", tmp_path / "plots", tmp_path / "profiles"

    done = subprocess.run(
        command("drain", "floor", "--quick", "--json", str(file), "--plots", str(plots), "--profile", str(profiles)),
        cwd=ROOT,
        env=environment(scratch),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "drain ÷ floor" in done.stdout
    scenarios = json.loads(file.read_text())["scenarios"]
    [drain], [floor] = scenarios["drain"]["runs"], scenarios["floor"]["runs"]
    assert drain["duplicates"] == 0
    assert set(drain["cpu"]) == {*KINDS, "database", "endpoint"}
    assert set(floor["stages"]) == {"route", "dispatch", "lease", "send", "report", "settle"}
    assert scenarios["floor"]["drain_to_floor"]["median"] == pytest.approx(drain["rate"] / floor["rate"])
    assert "no plots: matplotlib is not installed" in done.stdout or (plots / "rates.png").exists()
    assert json.loads((profiles / "worker-0.json").read_text()), "there are no samples"
    assert "jobs/worker.py:turn" in done.stdout
    assert list(scratch.iterdir()) == []


def test_an_interrupted_run_leaves_nothing_behind(scratch: Path):
    process = subprocess.Popen(
        command("floor", "--quick"), cwd=ROOT, env=environment(scratch), stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not list(scratch.glob("webhookhub-server-*/pid")) and time.monotonic() < until:
        time.sleep(0.05)
    pid = int(next(scratch.glob("webhookhub-server-*/pid")).read_text())

    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 128 + signal.SIGINT
    assert list(scratch.iterdir()) == []
    assert not Path(f"/proc/{pid}").exists()


def test_an_unknown_scenario_is_refused_with_a_list():
    done = subprocess.run(command("drian"), cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 2
    assert "unknown scenario 'drian'; choose from drain, floor, celery" in done.stderr
