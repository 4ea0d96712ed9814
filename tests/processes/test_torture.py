"""A short torture: random kills for some seconds, and nothing is lost. `make test-all` runs the long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.torture import torture

SECONDS = 10


@pytest.mark.timeout(200)
def test_nothing_is_lost_whatever_is_killed(tmp_path: Path):
    figures = torture(tmp_path, "--seconds", str(SECONDS), "--events", "250", "--database-kills", "1")

    assert figures["database kills"] == 1
    assert figures["loops killed"] > 0
    assert figures["events acknowledged"] > 100
    assert figures["completed"] > 0
