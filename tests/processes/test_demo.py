"""The demo, as a newcomer runs it."""

from __future__ import annotations

import re
from pathlib import Path

from .support import Processes, embedded_only


@embedded_only
def test_the_demo_delivers_everything_and_sums_up(processes: Processes, tmp_path: Path):
    own = {"DATABASE_URL", "WEBHOOKHUB_CA_BUNDLE"}
    processes.environment = {
        name: value
        for name, value in processes.environment.items()
        if name not in own and not name.startswith("WEBHOOKHUB_")
    }

    demo = processes.execute(["-m", "demo", "--events", "60"])

    assert demo.wait(60) == 0
    summary = dict(re.findall(r"^  (\S.*?) {2,}(\S+)$", demo.output, re.MULTILINE))
    # One event in fifty, from the eighth on, can only fail; each other goes to two endpoints.
    assert summary["events"] == "60"
    assert (summary["sagas"], summary["delivered"]) == ("118", "116")
    assert int(summary["retried"]) > 2
    assert summary["dead-lettered"] == "2"
    assert summary["lost"] == "0"
    assert demo.errors == ""
