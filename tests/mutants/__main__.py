"""`python -m tests.mutants [part of a name …]`: takes one guard at a time out of a copy of the product, and demands
that the tests that are to watch over it go red.

Those that only a server with row locks can show use TEST_DATABASE_URL, or else a private server.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.server import PrivateServer

from .mutants import ALL, ROOT, Mutant

LONGEST_SECONDS = 600
LONGEST_BASELINE_SECONDS = 3600
SURVIVED = "SURVIVED"


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
            red = run(copy, tests, url, LONGEST_BASELINE_SECONDS) if tests and not options.quick else None
            if red:
                print(f"Red without any mutant, so that nothing would be shown: {red}")  # noqa: T201
                return 2
        survivors = 0
        for mutant in chosen:
            started = time.monotonic()
            red = with_mutant(copy, mutant, urls[mutant.server]) or SURVIVED
            survivors += red == SURVIVED
            print(f"{mutant.name:{width}}  {time.monotonic() - started:4.0f} s  {red}", flush=True)  # noqa: T201
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")  # noqa: T201
    return 1 if survivors else 0


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


def with_mutant(copy: Path, mutant: Mutant, url: str) -> str | None:
    file = copy / mutant.file
    source = file.read_text()
    file.write_text(mutant.mutated(source))
    try:
        return run(copy, mutant.tests, url)
    finally:
        file.write_text(source)


def run(folder: Path, tests: Sequence[str], url: str, seconds: int = LONGEST_SECONDS) -> str | None:
    """The first test that goes red, and why, if one does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--create-db", "--show-capture=no", "-o", "timeout=100"]
    environment = {**os.environ, "TEST_DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *tests], cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} s"
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (.+)", done.stdout, re.MULTILINE)
    return found[1][:300] if found else f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}"


if __name__ == "__main__":
    sys.exit(main())
