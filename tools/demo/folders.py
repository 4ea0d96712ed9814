"""Folders for the demo's files, separate for runs at the same time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "var" / "demo"
LOG = "hub.log"
SAMPLE_WORKFLOWS = ROOT / "workflows" / "samples"


@contextmanager
def temporary(base: Path) -> Iterator[Path]:
    """A new folder in `base`, removed at the end."""
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(base: Path) -> Iterator[Path]:
    """`base` itself, for one run at a time. Its files are kept for the next run."""
    base.mkdir(parents=True, exist_ok=True)
    # Opened for appending, to keep the process id that the other run has written.
    with (base / "lock").open("a+") as lock:
        try:
            # The kernel releases the lock when the process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SystemExit(
                f"WebhookHub is already running here (process {lock.read().strip()}). Stop it first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield base


def keep_log(folder: Path, base: Path) -> Path | None:
    """Moves the log out of a folder that will be removed. Returns its path."""
    log = folder / LOG
    if not log.exists() or folder == base:
        return log if log.exists() else None
    return log.rename(base / f"{folder.name}.log")


def shown(path: Path) -> Path:
    """The path relative to the checkout, if it is inside."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
