"""A run of the suite in which very few tests that depend on the clock may be tried once more, and are named.

On a machine that has other things to do, real processes, browsers and servers may miss a deadline. Tests that look for
what happens rarely get no second chance: one failure in a thousand runs is what they are there to find.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS_FAILED = 1
MOST = 3
SEARCHERS = ("tests/conformance/", "tests/machine/", "tests/model/", "tests/mutants/", "tests/torture/")


def run_suite(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Returns pytest's exit code: of the second try where there was one."""
    with tempfile.TemporaryDirectory() as folder:
        code = _pytest(["-o", f"cache_dir={folder}", *arguments], environment)
        if code != TESTS_FAILED:
            return code
        again = second_chances(Path(folder))
    if not again:
        return code
    print("\n== Once more, because it may have been the clock:", *again, "==", flush=True)  # noqa: T201
    return _pytest(again, environment)


def second_chances(cache: Path) -> list[str]:
    """What has failed, if all of it may be tried again."""
    file = cache / "v" / "cache" / "lastfailed"
    failed = sorted(json.loads(file.read_text())) if file.exists() else []
    if len(failed) > MOST or any(name.startswith(SEARCHERS) or "::" not in name for name in failed):
        return []
    return failed


def _pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment).returncode
