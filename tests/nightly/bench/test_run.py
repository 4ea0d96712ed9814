"""Runs `python -m tools.bench` on its private server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


def scenarios_of(file: Path, scratch: Path, *arguments: str) -> dict[str, Any]:
    """Runs the benchmark with small sizes. Returns the results of its scenarios."""
    done = subprocess.run(
        command(*arguments, "--quick", "--json", str(file)),
        cwd=ROOT,
        env=environment(scratch),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(scratch.iterdir()) == []
    scenarios: dict[str, Any] = json.loads(file.read_text())["scenarios"]
    return scenarios


def test_the_hub_is_measured_end_to_end_and_after_a_silence(tmp_path: Path, scratch: Path):
    scenarios = scenarios_of(tmp_path / "results.json", scratch, "endtoend", "after_silence", "--silence", "1")

    [[run]] = scenarios["endtoend"]["runs"].values()
    assert run["faults"] == 0
    figures = run["figures"]
    for name in ("single posts", "batches of 250", "fan-out × 10"):
        assert figures[f"{name}: deliveries/s"] > 0
        assert figures[f"{name}: µs of CPU per delivery"] > 0
        assert run["details"][name]["received"] == run["details"][name]["expected"]
    assert run["details"]["fan-out × 10"]["expected"] == 300
    p50, p95, p99 = (figures[f"50 events/s: ms to the endpoint, {name}"] for name in ("p50", "p95", "p99"))
    assert 0 < p50 <= p95 <= p99
    assert figures["50 events/s: µs of CPU per event"] > 0
    assert figures["MB of the hub's processes"] > 20
    assert figures["idle: % of a core, hub and database"] < 100
    # A delivery inserts an event, a saga and a job, and updates both.
    completed = figures["statements per delivery, one event alone until it is Completed"]
    assert 5 < completed < figures["statements per delivery, one event alone within 1 s"]
    assert 0 < figures["statements per delivery, batches of 500"] < 2
    assert run["details"]["statements, one event alone within 1 s"]["insert"] >= 1
    [floor] = scenarios["endtoend"]["single"]
    assert 10 <= floor["statements"] < 10.1
    targets = {line["name"]: line["value"] for line in scenarios["endtoend"]["targets"]}
    ratio = float(targets["single posts ÷ floor, deliveries/s"].split()[0])
    assert ratio == pytest.approx(figures["single posts: deliveries/s"] / floor["rate"], 0.01)
    [[silence]] = scenarios["after_silence"]["runs"].values()
    assert len(silence["details"]["first_ms"]) == 2
    assert silence["figures"]["ms of the first event after 1 s of silence, p50"] > 0


def test_two_checkouts_with_stored_deliveries_are_compared(tmp_path: Path, scratch: Path):
    options = ("--compare", str(ROOT), str(ROOT), "--stored", "500", "--rounds", "1", "--parts", "fan_out", "memory")
    scenarios = scenarios_of(tmp_path / "results.json", scratch, "endtoend", *options)

    first, second = scenarios["endtoend"]["runs"]
    assert (first[0], second[0]) == ("1", "2")
    assert second.endswith(", 500 stored")
    ratio = scenarios["endtoend"]["ratios"][second]["MB of the hub's processes"]
    assert 0.5 < ratio["median"] < 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("endtoend", "--parts", "sinlge"), "unknown part 'sinlge'; choose from idle, statements, single"),
        (("--compare", "/", "/"), "/ is not a checkout with its own .venv"),
        (("drain", "--compare", str(ROOT)), "--compare is for endtoend and after_silence only"),
        (("endtoend", "--rounds", "0"), "--rounds must be at least 1"),
    ],
)
def test_wrong_options_are_refused(arguments: tuple[str, ...], message: str):
    done = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 2
    assert message in done.stderr
