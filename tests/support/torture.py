"""Runs `python -m tools.torture` and reads its results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.torture.processes import ROOT

SUMMARY = "summary.json"


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.torture", "--logs", str(folder), "--json", str(folder / SUMMARY), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def torture(folder: Path, *options: str) -> dict[str, Any]:
    """Runs with a private server and asserts that every claim holds. Returns the stats."""
    done = run(folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((folder / SUMMARY).read_text())
    assert not any(verdict["violations"] for verdict in document["verdicts"])
    return dict(document["stats"])
