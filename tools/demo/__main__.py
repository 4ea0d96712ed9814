"""`python -m tools.demo`: publishes and delivers sample events and prints a summary. `--stay` keeps the hub running."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from tools.demo import environment, folders, signals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="keep the hub and its console running until Ctrl-C")
    parser.add_argument("--events", type=int, default=None, help="number of sample events (300; 12 with --stay)")
    parser.add_argument("--web", default="127.0.0.1:8000", help="with --stay: the address of the console and the API")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit")
    parser.add_argument("--folder", type=Path, default=folders.DEFAULT, help="folder for files (var/demo)")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    signals.install()
    # A run with its own database gets its own folder; runs on a shared database exclude each other.
    scratch = not options.stay and not os.environ.get("DATABASE_URL")
    with (folders.temporary if scratch else folders.locked)(options.folder) as folder:
        code = 1
        try:
            code = run(options, folder, scratch)
        except signals.Stopped:
            code = 0
            raise
        except ImproperlyConfigured as error:
            code = os.EX_CONFIG
            print(f"The hub is not configured: {error}", file=sys.stderr)
        finally:
            log = folders.keep_log(folder, options.folder) if code else None
            if log:
                print(f"The hub's log is {folders.shown(log)}", file=sys.stderr)
        return code


def run(options: argparse.Namespace, folder: Path, scratch: bool) -> int:
    environment.prepare(folder, scratch_database=scratch)

    # Import after the environment is set: Django reads it once.
    from tools.demo import run as demo

    if options.stay:
        return demo.stay(folder, options.web, options.events or 12, options.seconds)
    return demo.once(folder, options.events or 300, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
