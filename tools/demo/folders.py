"""Where a run of the demo keeps its files, so that two runs at once do not meet."""

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


@contextmanager
def of_its_own(base: Path) -> Iterator[Path]:
    """A folder below `base` for one run, removed at the end."""
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def held(base: Path) -> Iterator[Path]:
    """`base` itself, whose files serve the next run too: for one run at a time, the next one is refused."""
    base.mkdir(parents=True, exist_ok=True)
    # Opened to append: whoever is refused must not empty what the holder wrote.
    with (base / "lock").open("a+") as lock:
        try:
            # The kernel lets go of it when the process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SystemExit(
                f"WebhookHub is running already here: process {lock.read().strip()}. Stop that first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield base


def keep_log(folder: Path, base: Path) -> Path | None:
    """Save the hub's log from a folder that is about to be removed; returns where it is."""
    log = folder / LOG
    if not log.exists() or folder == base:
        return log if log.exists() else None
    return log.rename(base / f"{folder.name}.log")


def shown(path: Path) -> Path:
    """As one types it in the repository's folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
