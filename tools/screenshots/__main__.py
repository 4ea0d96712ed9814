"""`python -m tools.screenshots`: the pictures in docs/, made from the console of a hub that really delivers.

Its endpoints are real ones on loopback, some of them broken on purpose. Only the chart's past hour is made up, by the
function that the hub counts results with: nobody waits an hour for a picture.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tools.demo import environment

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="where the pictures go (docs/)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="webhookhub-screenshots-"))
    try:
        environment.prepare(folder, scratch_database=True)

        # Only now: Django reads the environment once, when it is set up.
        from tools.screenshots import camera, scene

        with scene.staged(folder) as stage:
            camera.take(stage, options.into)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
