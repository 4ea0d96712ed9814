"""The demo of workflows: real services, real time-outs, and the expected outcome of every story."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.processes.support import Processes


@pytest.mark.requirement("R5-1g", "R5-3.1a", "R5-3.1b", "R5-3.1d", "R5-3.1e", "R5-6b", "R5-6c")
def test_every_scenario_ends_as_expected(processes: Processes, tmp_path: Path):
    processes.environment = {
        name: value
        for name, value in processes.environment.items()
        if name != "DATABASE_URL" and not name.startswith("WEBHOOKHUB_")
    }
    folder = tmp_path / "demo"

    demo = processes.execute(["-m", "tools.demo.workflows", "--folder", str(folder)])

    assert demo.wait(280) == 0, demo.output
    scenarios = [re.split(r" {2,}", line.strip()) for line in demo.output.splitlines() if line.endswith("yes")]
    assert [(scenario[0], scenario[2]) for scenario in scenarios] == [
        ("an order completes", "COMPLETED"),
        ("the payment fails", "COMPENSATED"),
        ("the payment service does not respond", "COMPENSATED"),
        ("the payment succeeds too late", "COMPENSATED, late fact"),
        ("an order is cancelled", "COMPLETED"),
        ("a customer registers", "COMPLETED"),
    ]
    assert demo.errors == ""
    assert os.listdir(folder) == [], "it takes its files away"
