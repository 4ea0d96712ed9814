"""`python -m tools.demo.workflows`: seven services run six scenarios; prints a table of the results."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tools.demo import environment, folders, signals

# Instead of the minutes of the sample definitions.
STEP_SECONDS, WORKFLOW_SECONDS = 10, 90


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.workflows", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="time limit")
    parser.add_argument("--folder", type=Path, default=folders.DEFAULT, help="folder for files (var/demo)")
    options = parser.parse_args()
    signals.install()
    base = options.folder.resolve()
    with folders.temporary(base) as folder:
        code = 1
        try:
            code = run(folder, options.seconds)
        except signals.Stopped:
            code = 0
            raise
        finally:
            log = folders.keep_log(folder, base) if code else None
            if log:
                print(f"The hub's log is {folders.shown(log)}", file=sys.stderr)
        return code


def run(folder: Path, seconds: float) -> int:
    # Always a new database: the ids of the orders are the same in every run.
    os.environ["WEBHOOKHUB_WORKFLOW_DEFINITIONS"] = str(with_short_timeouts(folder / "definitions"))
    environment.prepare(folder, scratch_database=True)

    # Import after the environment is set: Django reads it once.
    from tools.demo.workflows import run as demo

    return demo.run(folder, seconds)


def with_short_timeouts(folder: Path) -> Path:
    """Copies the sample definitions with shorter timeouts."""
    folder.mkdir()
    for file in folders.SAMPLE_WORKFLOWS.glob("*.toml"):
        workflow, *steps = file.read_text(encoding="utf-8").split("[[steps]]")
        parts = [_with_timeout(workflow, WORKFLOW_SECONDS), *(_with_timeout(step, STEP_SECONDS) for step in steps)]
        (folder / file.name).write_text("[[steps]]".join(parts), encoding="utf-8")
    return folder


def _with_timeout(text: str, seconds: int) -> str:
    return re.sub(r"timeout_seconds = \d+", f"timeout_seconds = {seconds}", text)


if __name__ == "__main__":
    sys.exit(main())
