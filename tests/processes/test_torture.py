"""A short torture: random kills for some seconds. `make test-all` runs the long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.torture import torture

SECONDS = 10


@pytest.mark.requirement("R1-10.2b")
@pytest.mark.requirement("R3-6g")
@pytest.mark.requirement("R4-1.2a")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("options", [[], ["--one-process"]], ids=["separate processes", "one process"])
def test_nothing_is_lost(tmp_path: Path, options: list[str]):
    stats = torture(tmp_path, "--seconds", str(SECONDS), "--events", "250", "--database-kills", "1", *options)

    assert stats["database kills"] == 1
    assert stats["loops killed"] > 0
    assert stats["events acknowledged"] > 100
    assert stats["completed"] > 0
