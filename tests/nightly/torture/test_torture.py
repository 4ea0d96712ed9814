"""Faults of every kind for ninety seconds; every claim holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.torture import SUMMARY, run, torture
from tools.torture.config import HUB, LOOPS, plural

pytestmark = pytest.mark.timeout(600)
SECONDS = 90


@pytest.mark.parametrize("one_process", [False, True], ids=["separate processes", "one process"])
def test_nothing_is_lost_or_duplicated(tmp_path: Path, one_process: bool):
    options = ["--one-process"] if one_process else []
    stats = torture(tmp_path, "--seconds", str(SECONDS), "--events", "2000", "--database-kills", "3", *options)

    # About half of the expected number, because a busy machine is slow to restart killed loops.
    assert stats["loops killed"] >= SECONDS
    assert all(stats[f"{plural(kind)} killed"] for kind in ([HUB] if one_process else LOOPS))
    assert stats["web servers killed"] > 0
    assert stats["events acknowledged by HTTP"] > 0
    assert stats["completed workflows"] > 0
    assert stats["database kills"] == 3
    assert stats["events acknowledged"] >= 1000
    assert stats["leases reset"] > 0, "no worker was killed while it held a lease"
    assert stats["loops paused longer than a lease"] > 0
    assert stats["connections killed"] > 0
    assert stats["completed"] > 0
    assert stats["completed of these"] >= 0.99 * stats["deliveries to /steady"] > 0
    assert stats["dead-lettered"] > 0
    assert stats["events rolled back"] > 0


def test_a_database_that_loses_commits_is_detected(tmp_path: Path):
    """A run must be able to fail."""
    done = run(tmp_path, "--forgetful", "--seconds", "12", "--events", "600", "--database-kills", "2")

    assert done.returncode == 1, done.stdout + done.stderr
    verdicts = json.loads((tmp_path / SUMMARY).read_text())["verdicts"]
    refuted = {verdict["claim"] for verdict in verdicts if verdict["violations"]}
    assert "Every acknowledged event is stored once, as it was sent." in refuted


def test_a_folder_with_logs_of_another_run_is_refused(tmp_path: Path):
    (tmp_path / "faults.jsonl").touch()

    done = run(tmp_path)

    assert done.returncode == 2
    assert "is not an empty folder" in done.stderr
