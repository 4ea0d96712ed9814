"""`manage.py audit` on a large, consistent database: its duration and peak memory.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tools.bench.scratch_database import scratch_database
from tools.bench.seed_bulk import Sizes, seed

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.audit", description=__doc__)
    parser.add_argument("--sagas", type=int, default=1_000_000, help="number of stored deliveries")
    parser.add_argument("--keep", action="store_true", help="do not drop the database")
    parser.add_argument("--batch-size", type=int, default=20_000)
    options = parser.parse_args()
    with scratch_database(keep=options.keep):
        started = time.monotonic()
        seed(Sizes.mixed(options.sagas))
        print(f"filled in {time.monotonic() - started:.0f} s", flush=True)
        return _audit(options.batch_size)


def _audit(batch_size: int) -> int:
    """Runs in its own process, to measure its memory alone. Returns its exit code."""
    command = [sys.executable, str(ROOT / "manage.py"), "audit", "--batch-size", str(batch_size)]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    cpu = used.ru_utime + used.ru_stime
    print(f"{time.monotonic() - started:.1f} s, {cpu:.1f} s of CPU, peak memory {used.ru_maxrss // 1024} MB")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main())
