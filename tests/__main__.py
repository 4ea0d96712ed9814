"""`make test`: the suite on MariaDB; before it, the tests that depend on the engine on SQLite.

Arguments other than --engine go to pytest:

    python -m tests -k requeue
    python -m tests --engine sqlite tests/sagas
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.support.engines import ENGINES, MARIADB, SQLITE, database_on
from tests.support.scratch import scratch
from tests.support.suite import run
from tools.support.database_server import NoServer

NO_TESTS = 5  # pytest's exit code
EVERY_ENGINE = "every_engine"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__, add_help=False, allow_abbrev=False)
    parser.add_argument("--engine", choices=ENGINES)
    options, arguments = parser.parse_known_args()
    runs = {options.engine: arguments} if options.engine else {SQLITE: on_every_engine(arguments), MARIADB: arguments}
    code = NO_TESTS
    with scratch():
        for engine, selection in runs.items():
            code = run_on(engine, selection, code)
            if code not in (0, NO_TESTS):
                break  # so that the output ends with pytest's summary of the failures
    return code


def on_every_engine(arguments: list[str]) -> list[str]:
    """Selects the marked tests. Without paths, reads only the files that contain the marker, because reading all takes
    ten seconds."""
    paths = [argument for argument in arguments if Path(argument.partition("::")[0]).exists()]
    if not paths:
        files = [str(path) for path in sorted(Path("tests").rglob("test_*.py")) if "nightly" not in path.parts]
        paths = [path for path in files if EVERY_ENGINE in Path(path).read_text()]
        arguments = [*arguments, *paths]
    return ["-m", EVERY_ENGINE, *arguments]


def run_on(engine: str, arguments: list[str], before: int) -> int:
    print(f"\n== {engine} ==", flush=True)  # noqa: T201
    try:
        with database_on(engine) as url:
            code = run(engine, url, arguments)
    except NoServer as reason:
        print(reason, file=sys.stderr)  # noqa: T201
        return 1
    return before if code == NO_TESTS else code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
