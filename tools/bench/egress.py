"""The engine alone against a loopback receiver, beside bare pycurl in the same run: POSTs and CPU per POST.

Rounds are short and alternate, so that a noisy machine disturbs both alike; medians are compared.
CPU is this process's own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench.bare import CONCURRENCY, Bare
from tools.bench.echo import receiver
from tools.demo import certificates

if TYPE_CHECKING:  # importable only once Django is set up
    from jobs.lease import LeasedJob
    from webhookhub.egress.messages import Request

PAYLOAD = json.dumps({"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}, separators=(",", ":"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.egress", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="POSTs in each round")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        authority, server = certificates.write(Path(folder))
        _set_up(str(authority))
        with receiver(server) as echo:
            url = echo.url
            sides: dict[str, EngineSide | BareSide]
            sides = {"bare pycurl": BareSide(url, str(authority)), "engine, signing": EngineSide(url, str(authority))}
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            for number in range(options.rounds + 1):
                for name, side in sides.items():
                    figures = _measure(side, options.requests)
                    if number:  # the first round makes the connections
                        rounds[name].append(figures)
    _print(rounds, options.json)
    return 0


def _set_up(authority: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    os.environ["WEBHOOKHUB_CA_BUNDLE"] = authority
    os.environ["WEBHOOKHUB_ALLOWED_NETWORKS"] = "127.0.0.0/8"
    os.environ["WEBHOOKHUB_ALLOWED_PORTS"] = "1024-65535"
    os.environ["WEBHOOKHUB_REQUESTS_PER_HOST"] = str(CONCURRENCY)
    import django

    django.setup()


class EngineSide:
    """As a worker does it: build, sign, send, collect."""

    def __init__(self, url: str, authority: str) -> None:
        from jobs.lease import LeasedJob
        from subscriptions.signing import Endpoint, new_secret
        from webhookhub import crypto
        from webhookhub.egress.engine import Engine
        from webhookhub.ids import new_uid

        endpoint = Endpoint(url, crypto.encrypt(new_secret("v1")), "", None, "")
        now = datetime.now(UTC)
        text = now.isoformat().replace("+00:00", "Z")
        self._jobs = [
            LeasedJob(
                number, 1, 1, 0, "order.created", PAYLOAD, "c", 1, True, True, str(new_uid()), text, endpoint, "t", now
            )
            for number in range(1000)
        ]
        self._engine: Engine[LeasedJob] = Engine(CONCURRENCY)

    def requests(self) -> list[tuple[LeasedJob, Request]]:
        from jobs import request

        now = int(time.time())
        return [(job, request.build(job, now)) for job in self._jobs]

    def run(self, count: int) -> None:
        from jobs import request

        now = int(time.time())
        begun = done = 0
        while done < count:
            for _ in range(min(count - begun, self._engine.free)):
                job = self._jobs[begun % len(self._jobs)]
                begun += 1
                self._engine.submit(job, request.build(job, now))
            answers = self._engine.poll(1.0)
            assert all(answer.error_code is None for _, answer in answers), answers
            done += len(answers)


class BareSide:
    """The least pycurl can do to send the same bytes and know the answers: requests made beforehand, handles reused,
    the options of libcurl's own defaults; nothing built, signed, judged or bounded."""

    def __init__(self, url: str, authority: str) -> None:
        # What the other side sends, as it sends it.
        self._requests = [request for _, request in EngineSide(url, authority).requests()]
        self._bare = Bare(authority)

    def run(self, count: int) -> None:
        self._bare.send([self._requests[number % len(self._requests)] for number in range(count)])


def _measure(side: EngineSide | BareSide, count: int) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    side.run(count)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"posts_per_second": count / wall, "cpu_microseconds": cpu / count * 1e6}


def _print(rounds: dict[str, list[dict[str, float]]], as_json: bool) -> None:
    result: dict[str, Any] = {}
    for name, figures in rounds.items():
        cpu = [figure["cpu_microseconds"] for figure in figures]
        result[name] = {
            "posts_per_second": round(statistics.median(figure["posts_per_second"] for figure in figures)),
            "cpu_microseconds_per_post": round(statistics.median(cpu), 1),
            "cpu_spread": [round(min(cpu), 1), round(max(cpu), 1)],
        }
    # Round by round, each against its neighbour: what disturbs the machine lasts longer than a round.
    pairs = zip(rounds["engine, signing"], rounds["bare pycurl"], strict=True)
    ratios = [ours["cpu_microseconds"] / theirs["cpu_microseconds"] for ours, theirs in pairs]
    result["cpu_ratio"] = round(statistics.median(ratios), 2)
    result["cpu_ratio_spread"] = [round(min(ratios), 2), round(max(ratios), 2)]
    if as_json:
        print(json.dumps(result))
        return
    print(f"{'':<18}{'POST/s':>8}{'µs CPU/POST':>14}   spread")
    for name in rounds:
        row = result[name]
        low, high = row["cpu_spread"]
        print(f"{name:<18}{row['posts_per_second']:>8}{row['cpu_microseconds_per_post']:>14}   {low} to {high}")
    low, high = result["cpu_ratio_spread"]
    print(f"CPU of the engine / CPU of bare pycurl: {result['cpu_ratio']} ({low} to {high})")


if __name__ == "__main__":
    raise SystemExit(main())
