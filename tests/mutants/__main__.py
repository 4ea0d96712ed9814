"""`python -m tests.mutants [part of a name …]`: takes one guard at a time out of a copy of the product, and demands
that an assertion fails in the tests that are to watch over it, of a test that passes without the mutant.

Those that only a server with row locks can show use TEST_DATABASE_URL, or else a private server.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.server import PrivateServer

from . import outcome
from .mutants import ALL, ROOT, Mutant
from .outcome import Outcome

LONGEST_SECONDS = 600
LONGEST_BASELINE_SECONDS = 3600


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help="of the names of those to run; all if none is given")
    parser.add_argument("--quick", action="store_true", help="do not first see that the tests are green without any")
    options = parser.parse_args()
    parts = options.parts
    chosen = [mutant for mutant in ALL if not parts or any(part in mutant.name for part in parts)]
    if not chosen:
        print(f"There is no mutant whose name holds {' or '.join(parts)}.")  # noqa: T201
        return 2
    width = max(len(mutant.name) for mutant in chosen)
    with ExitStack() as stack:
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webhookhub-mutants-")))
        take_copy(copy)
        urls = {False: ""}
        if any(mutant.server for mutant in chosen):
            given = os.environ.get("TEST_DATABASE_URL")
            urls[True] = given or stack.enter_context(PrivateServer()).url()
        for server, url in urls.items():
            tests = sorted({test for mutant in chosen if mutant.server == server for test in mutant.tests})
            if not tests or options.quick:
                continue
            found = run(copy, tests, url, LONGEST_BASELINE_SECONDS)
            if not found.green:
                print(f"Not green without any mutant, so that nothing would be shown: {found}")  # noqa: T201
                return 2
        noticed = 0
        for mutant in chosen:
            started = time.monotonic()
            found = with_mutant(copy, mutant, urls[mutant.server])
            if found.noticed and not run(copy, [found.test], urls[mutant.server]).green:
                found = Outcome(outcome.RED_ANYWAY, found.test)
            noticed += found.noticed
            print(f"{mutant.name:{width}}  {time.monotonic() - started:4.0f} s  {found}", flush=True)  # noqa: T201
    print(f"{noticed} of {len(chosen)} mutants were noticed")  # noqa: T201
    return 0 if noticed == len(chosen) else 1


def take_copy(folder: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def with_mutant(copy: Path, mutant: Mutant, url: str) -> Outcome:
    file = copy / mutant.file
    source = file.read_text()
    file.write_text(mutant.mutated(source))
    try:
        found = run(copy, mutant.tests, url)
        # Whatever went wrong first may be no assertion; one of those behind it may be.
        return found if found.green or found.noticed else run(copy, mutant.tests, url, go_on=True)
    finally:
        file.write_text(source)


def run(folder: Path, tests: Sequence[str], url: str, seconds: int = LONGEST_SECONDS, go_on: bool = False) -> Outcome:
    """What the tests say: up to the first that goes red, or all of them."""
    command = [sys.executable, "-m", "pytest", "-q", "--create-db", "--show-capture=no", "-o", "timeout=100"]
    # The summary has one line for each test, and all of it is needed.
    environment = {**os.environ, "TEST_DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    try:
        done = subprocess.run(
            [*command, *([] if go_on else ["-x"]), *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Outcome(outcome.NO_END, f"within {seconds} s")
    return outcome.read(done.returncode, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(main())
