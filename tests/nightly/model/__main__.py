"""`python -m tests.nightly.model`: explores the protocol, and what becomes of it without each of its guards.

--large adds configurations that take minutes and gigabytes.
"""

from __future__ import annotations

import argparse
import sys
import time

from .configurations import GUARDS, LARGE, SECOND_LINE, TESTED, without
from .explore import explore
from .protocol import Protocol


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.model", description=__doc__)
    parser.add_argument("--large", action="store_true", help="the large configurations too")
    large = parser.parse_args().large
    good = [show(name, protocol, None) for name, protocol in {**TESTED, **(LARGE if large else {})}.items()]
    for guards, (configuration, rule) in GUARDS.items():
        good.append(show(f"without {guards}: {configuration}", without(guards, configuration), rule))
    for guards, configuration in SECOND_LINE.items():
        good.append(show(f"without {guards}: {configuration}", without(guards, configuration), None))
    print(f"{sum(good)} of {len(good)} as expected")  # noqa: T201
    return 0 if all(good) else 1


def show(name: str, protocol: Protocol, rule: str | None) -> bool:
    started = time.monotonic()
    outcome = explore(protocol)
    expected = outcome.broken == rule
    print(f"{'  ' if expected else '! '}{name}\n    {outcome} ({time.monotonic() - started:.0f} s)", flush=True)  # noqa: T201
    return expected


if __name__ == "__main__":
    sys.exit(main())
