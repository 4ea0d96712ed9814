"""The units as systemd reads them: valid, and confined."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from webhookhub.conf import KINDS

UNITS = Path(__file__).resolve().parents[3] / "deploy" / "systemd"
NAMES = ["webhookhub-hub.service", "webhookhub-web.service", *(f"webhookhub-loop@{kind}-2.service" for kind in KINDS)]
SYSTEM = Path("/lib/systemd/system")
# From 0 (confined) to 10 (exposed). A service without hardening has 9.6; network access alone is worth about 1.
MOST_EXPOSED = 1.5
pytestmark = pytest.mark.skipif(
    not shutil.which("systemd-analyze") or not SYSTEM.is_dir(), reason="needs the programs and targets of systemd"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file system with the units, the targets they need, and the programs they start."""
    folder = tmp_path_factory.mktemp("root")
    units = folder / "etc" / "systemd" / "system"
    shutil.copytree(UNITS, units)
    targets = folder / "usr" / "lib" / "systemd" / "system"
    targets.mkdir(parents=True)
    for target in (*SYSTEM.glob("*.target"), *SYSTEM.glob("*.slice")):
        shutil.copy(target, targets)
    for program in ("opt/webhookhub/bin/webhookhub", "bin/sh"):
        (folder / program).parent.mkdir(parents=True)
        (folder / program).touch(0o755)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_valid(root: Path, name: str):
    result = subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=no", name],
        capture_output=True,
        text=True,
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_confined(root: Path, name: str):
    threshold = f"--threshold={MOST_EXPOSED * 10:.0f}"
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--root={root}", threshold, "--json=short", name],
        capture_output=True,
        text=True,
    )

    exposed = [each["name"] for each in json.loads(result.stdout) if not each["set"]]
    assert result.returncode == 0, exposed


def test_a_wrong_line_is_found(root: Path):
    wrong = root / "etc" / "systemd" / "system" / "webhookhub-wrong.service"
    wrong.write_text((UNITS / "webhookhub-web.service").read_text().replace("/opt/webhookhub", "/opt/absent"))
    result = subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", wrong.name], capture_output=True, text=True
    )

    assert result.returncode
    assert "/opt/absent/bin/webhookhub" in result.stderr


def test_users_and_folders_are_created(tmp_path: Path):
    (tmp_path / "etc").mkdir()
    create = ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sysusers.conf")]
    assert subprocess.run(create, capture_output=True).returncode == 0
    assert "webhookhub:" in (tmp_path / "etc" / "passwd").read_text()

    tidy = ["systemd-tmpfiles", "--create", f"--root={tmp_path}", str(UNITS / "tmpfiles.conf")]
    result = subprocess.run(tidy, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "var" / "lib" / "webhookhub").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc" / "webhookhub").stat().st_mode & 0o777 == 0o750
