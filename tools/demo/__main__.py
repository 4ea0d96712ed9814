"""`python -m tools.demo`: publish sample events, deliver them for real, sum up. `--stay`: keep the hub running."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.demo import environment, folders, stopping


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="keep the hub and its console running until Ctrl-C")
    parser.add_argument("--events", type=int, default=None, help="sample events to publish (300; 12 with --stay)")
    parser.add_argument("--web", default="127.0.0.1:8000", help="with --stay: where the console is served")
    parser.add_argument("--seconds", type=float, default=120.0, help="give up after this long")
    parser.add_argument("--folder", type=Path, default=folders.DEFAULT, help="where files are kept (var/demo)")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    stopping.hear_signals()
    # Whoever has a database only for this run shares nothing with others; on a lasting one, two would meet.
    scratch = not options.stay and not os.environ.get("DATABASE_URL")
    with (folders.of_its_own if scratch else folders.held)(options.folder) as folder:
        code = 1
        try:
            code = run(options, folder, scratch)
        except stopping.Stopped:
            code = 0
            raise
        finally:
            log = folders.keep_log(folder, options.folder) if code else None
            if log:
                print(f"The hub's log is {folders.shown(log)}", file=sys.stderr)
        return code


def run(options: argparse.Namespace, folder: Path, scratch: bool) -> int:
    environment.prepare(folder, scratch_database=scratch)

    # Only now: Django reads the environment once, when it is set up.
    from tools.demo import show

    if options.stay:
        return show.stay(folder, options.web, options.events or 12, options.seconds)
    return show.once(folder, options.events or 300, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
