"""`python -m tools.screenshots`: takes the pictures in docs/ from the console of a running hub.

The hub delivers to endpoints on loopback, some of which fail on purpose. Only the past hour of the chart is generated.
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
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="folder for the pictures (docs/)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="webhookhub-screenshots-"))
    try:
        environment.prepare(folder, scratch_database=True)

        # Import after the environment is set: Django reads it once.
        from tools.screenshots import camera, scene

        with scene.staged(folder) as stage:
            camera.take(stage, options.into)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
