"""`python -m tests`: the whole suite on the embedded database, then on a real MySQL-family server.

TEST_DATABASE_URL names a server to use instead of a private one. Further arguments go to pytest.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

from tests.support.chances import run_suite
from tests.support.server import PrivateServer


def main() -> int:
    with ExitStack() as stack:
        url = os.environ.get("TEST_DATABASE_URL") or stack.enter_context(PrivateServer()).url()
        codes = [run("the embedded database", ""), run("a MySQL-family server", url)]
    return max(codes, key=abs)


def run(where: str, url: str) -> int:
    print(f"\n== The suite on {where} ==", flush=True)  # noqa: T201
    return run_suite(sys.argv[1:], {**os.environ, "TEST_DATABASE_URL": url})


if __name__ == "__main__":
    sys.exit(main())
