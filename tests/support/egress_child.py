"""The egress engine in a separate process, with its own memory and environment.

Each line of its input is a JSON list of URLs; it sends a request to all of them at once and prints a line.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BODY = b'{"n":1}'


class Child:
    """A context manager; the process gets the hub's settings from `environment`."""

    def __init__(self, **environment: str) -> None:
        self.niceness = 0
        self._environment = environment

    def __enter__(self) -> Child:
        command = ["nice", "-n", str(self.niceness), sys.executable, "-m", "tests.support.egress_child"]
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | self._environment
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exception: Any) -> None:
        self._process.communicate(timeout=30)

    def send(self, urls: Sequence[str]) -> dict[str, Any]:
        """`responses`: the result by URL; `resident` and `peak`: the process's memory in bytes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(urls) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the child has died"
        result: dict[str, Any] = json.loads(line)
        return result


def main() -> None:
    import django

    django.setup()
    from webhookhub.egress.engine import Engine
    from webhookhub.egress.messages import Request, Response

    engine: Engine[str] = Engine(500)
    for line in sys.stdin:
        started = time.monotonic()
        responses: dict[str, tuple[Response, float]] = {}
        urls = json.loads(line)
        for url in urls:
            engine.submit(url, Request(url, ["Content-Type: application/json"], BODY))
        while len(responses) < len(urls):
            responses |= {url: (response, time.monotonic() - started) for url, response in engine.poll(0.1)}
        report = {
            url: {
                "error_code": response.error_code,
                "status": response.status,
                "duration_ms": response.duration_ms,
                "seconds": seconds,
                "body": response.body.decode("latin-1"),
            }
            for url, (response, seconds) in responses.items()
        }
        del responses
        gc.collect()
        print(json.dumps({"responses": report, **memory()}), flush=True)  # noqa: T201
    engine.close()


def memory() -> dict[str, int]:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"resident": _bytes(lines["VmRSS"]), "peak": _bytes(lines["VmHWM"])}


def _bytes(kilobytes: str) -> int:
    return int(kilobytes.split()[0]) * 1024


if __name__ == "__main__":
    main()
