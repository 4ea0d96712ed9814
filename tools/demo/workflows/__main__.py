"""`python -m tools.demo.workflows`: seven services, six stories, and how each of them ended."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tools.demo import environment, folders, stopping

SHIPPED = folders.ROOT / "workflows" / "shipped"
# What the shipped definitions give minutes for. Enough for a slow machine, and short enough to watch.
STEP_SECONDS, SAGA_SECONDS = 10, 90


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.workflows", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="give up after this long")
    parser.add_argument("--folder", type=Path, default=folders.DEFAULT, help="where files are kept (var/demo)")
    options = parser.parse_args()
    stopping.hear_signals()
    base = options.folder.resolve()
    with folders.of_its_own(base) as folder:
        code = 1
        try:
            code = run(folder, options.seconds)
        except stopping.Stopped:
            code = 0
            raise
        finally:
            log = folders.keep_log(folder, base) if code else None
            if log:
                print(f"The hub's log is {folders.shown(log)}", file=sys.stderr)
        return code


def run(folder: Path, seconds: float) -> int:
    # Always a database of its own: the shop's cases have the same names every time.
    os.environ["WEBHOOKHUB_WORKFLOW_DEFINITIONS"] = str(hurried(folder / "definitions"))
    environment.prepare(folder, scratch_database=True)

    # Only now: Django reads the environment once, when it is set up.
    from tools.demo.workflows import show

    return show.run(folder, seconds)


def hurried(folder: Path) -> Path:
    """The shipped definitions, with less time for everything."""
    folder.mkdir()
    for file in SHIPPED.glob("*.toml"):
        saga, *steps = file.read_text(encoding="utf-8").split("[[steps]]")
        parts = [_within(saga, SAGA_SECONDS), *(_within(step, STEP_SECONDS) for step in steps)]
        (folder / file.name).write_text("[[steps]]".join(parts), encoding="utf-8")
    return folder


def _within(text: str, seconds: int) -> str:
    return re.sub(r"timeout_seconds = \d+", f"timeout_seconds = {seconds}", text)


if __name__ == "__main__":
    sys.exit(main())
