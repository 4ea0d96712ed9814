"""The receivers of docs/receivers.md that need a download or a compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from subscriptions.signing import new_secret
from tests.support.guide_receivers import check, programs, running
from tests.test_receivers_guide import certificate
from tools.support.ports import free_port

__all__ = ["certificate"]
pytestmark = pytest.mark.django_db
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def install(command: list[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"the package cannot be installed here: {result.stderr[-300:]}")


def test_flask_receiver(certificate: Path, tmp_path: Path):
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=tmp_path, check=True)
    install(["venv/bin/pip", "install", "-q", "flask>=3,<4"], tmp_path)
    (tmp_path / "receiver.py").write_text(programs("Flask")[0])

    port = free_port()
    command = ["venv/bin/flask", "--app", "receiver", "run", "--port", str(port)]
    with running(command, port, new_secret("v1"), tmp_path) as process:
        check(process, certificate)


@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js and npm")
def test_express_receiver(certificate: Path, tmp_path: Path):
    install(["npm", "install", "--no-audit", "--no-fund", "express@5"], tmp_path)
    (tmp_path / "receiver.js").write_text(programs("Express")[0])

    port = free_port()
    with running(["node", "receiver.js"], port, new_secret("v1"), tmp_path) as process:
        check(process, certificate)


@pytest.mark.skipif(not GO, reason="needs Go")
def test_go_receiver(certificate: Path, tmp_path: Path):
    (tmp_path / "receiver.go").write_text(programs("Go")[0])
    subprocess.run([str(GO), "build", "-o", "receiver", "receiver.go"], cwd=tmp_path, check=True, capture_output=True)

    port = free_port()
    with running(["./receiver"], port, new_secret("v1"), tmp_path) as process:
        check(process, certificate)
