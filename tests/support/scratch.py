"""One folder for all files of a test run, and no process left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.support.database_server import SCRATCH_VARIABLE

PR_SET_CHILD_SUBREAPER = 36
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 3 * 2**30


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Sets TMPDIR to a new folder. On exit, kills all descendants and removes the folder.

    SIGTERM and SIGHUP end the block like Ctrl-C does.
    """
    _adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
    before = os.environ.get("TMPDIR")
    folder = Path(tempfile.mkdtemp(prefix="webhookhub-tests-", dir=_fastest()))
    folder.chmod(0o711)  # the nodes of a cluster run as another user
    os.environ["TMPDIR"] = os.environ[SCRATCH_VARIABLE] = tempfile.tempdir = str(folder)
    try:
        yield folder
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not stop the clean-up
        kill_descendants()
        shutil.rmtree(folder, ignore_errors=True)
        tempfile.tempdir = None
        del os.environ[SCRATCH_VARIABLE]
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def _fastest() -> Path | None:
    """A folder in memory if there is enough: on disk every DDL statement of a server waits for a sync."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_NEEDED:
        return None
    return MEMORY if os.access(MEMORY, os.W_OK) else None


def _adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants, so that it can end them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants() -> None:
    if sys.platform != "linux":
        return
    me = os.getpid()
    while children := Path(f"/proc/{me}/task/{me}/children").read_text().split():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
