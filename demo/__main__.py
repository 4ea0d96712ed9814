"""`python -m demo`: publish sample events, deliver them for real, sum up. `--stay`: keep the hub running."""

from __future__ import annotations

import argparse
import sys

from demo import environment


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="keep the hub and its console running until Ctrl-C")
    parser.add_argument("--events", type=int, default=None, help="sample events to publish (300; 12 with --stay)")
    parser.add_argument("--web", default="127.0.0.1:8000", help="with --stay: where the console is served")
    parser.add_argument("--seconds", type=float, default=120.0, help="give up after this long")
    options = parser.parse_args()
    environment.prepare(fresh_database=not options.stay)

    # Only now: Django reads the environment once, when it is set up.
    from demo import show

    try:
        if options.stay:
            return show.stay(options.web, options.events or 12, options.seconds)
        return show.once(options.events or 300, options.seconds)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
