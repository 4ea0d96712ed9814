"""Ninety seconds in which everything is hit, and every claim holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.torture import SUMMARY, run, torture
from tools.torture.plan import LOOPS, plural

pytestmark = pytest.mark.timeout(600)
SECONDS = 90


def test_nothing_is_lost_and_nothing_happens_twice_whatever_is_killed(tmp_path: Path):
    figures = torture(tmp_path, "--seconds", str(SECONDS), "--events", "2000", "--database-kills", "3")

    # A machine that is busy with other things is slow to start what was killed, hence the room.
    assert figures["loops killed"] >= SECONDS
    assert all(figures[f"{plural(kind)} killed"] for kind in LOOPS)
    assert figures["web servers killed"] > 0
    assert figures["events acknowledged by HTTP"] > 0
    assert figures["completed workflows"] > 0
    assert figures["database kills"] == 3
    assert figures["events acknowledged"] >= 1000
    assert figures["leases reset"] > 0, "no worker was killed in the middle of its work"
    assert figures["loops stopped beyond a lease"] > 0
    assert figures["connections killed"] > 0
    assert figures["completed"] > 0
    assert figures["completed among them"] >= 0.99 * figures["deliveries to the steady path"] > 0
    assert figures["dead-lettered"] > 0
    assert figures["events rolled back"] > 0


def test_a_database_that_forgets_what_it_has_promised_is_found_out(tmp_path: Path):
    """The whole machinery can fail: nothing of the hub is broken here but the ground it stands on."""
    done = run(tmp_path, "--forgetful", "--seconds", "12", "--events", "600", "--database-kills", "2")

    assert done.returncode == 1, done.stdout + done.stderr
    verdicts = json.loads((tmp_path / SUMMARY).read_text())["verdicts"]
    refuted = {verdict["claim"] for verdict in verdicts if verdict["found"]}
    assert "Every acknowledged event is stored once, as it was sent." in refuted


def test_logs_of_an_earlier_run_are_not_judged_again(tmp_path: Path):
    (tmp_path / "chaos.jsonl").touch()

    done = run(tmp_path)

    assert done.returncode == 2
    assert "is not an empty folder" in done.stderr
