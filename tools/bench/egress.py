"""The sending engine on loopback, beside plain pycurl: POSTs per second, and CPU per POST of this process.

Rounds are short and alternate, so that a busy machine affects both equally; medians are compared.
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

from tools.bench.endpoint import run_endpoint
from tools.bench.load import PAYLOAD
from tools.bench.pycurl_client import CONCURRENCY, PycurlClient
from tools.demo import certificates

if TYPE_CHECKING:  # these need Django to be set up
    from jobs.lease import LeasedJob
    from webhookhub.egress.messages import Request

PYCURL, ENGINE = "pycurl", "engine, signing"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.egress", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="POSTs per round")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        authority, server = certificates.write(Path(folder))
        _set_up(str(authority))
        with run_endpoint(server) as endpoint:
            engine = EngineSender(endpoint.url)
            senders: dict[str, EngineSender | PycurlSender] = {
                PYCURL: PycurlSender(engine, str(authority)),
                ENGINE: engine,
            }
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in senders}
            for number in range(options.rounds + 1):
                for name, sender in senders.items():
                    values = _measure(sender, options.requests)
                    if number:  # the first round opens the connections
                        rounds[name].append(values)
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


class EngineSender:
    """Builds, signs and sends requests as a worker does."""

    def __init__(self, url: str) -> None:
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
                number,
                1,
                1,
                0,
                "order.created",
                PAYLOAD,
                "c",
                1,
                True,
                True,
                None,
                None,
                str(new_uid()),
                text,
                endpoint,
                "t",
                now,
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
        submitted = done = 0
        while done < count:
            for _ in range(min(count - submitted, self._engine.free)):
                job = self._jobs[submitted % len(self._jobs)]
                submitted += 1
                self._engine.submit(job, request.build(job, now))
            responses = self._engine.poll(1.0)
            assert all(response.error_code is None for _, response in responses), responses
            done += len(responses)


class PycurlSender:
    """Sends the same bytes with plain pycurl: requests built beforehand, handles reused, libcurl's default options."""

    def __init__(self, engine: EngineSender, authority: str) -> None:
        self._requests = [request[:3] for _, request in engine.requests()]
        self._client = PycurlClient(authority)

    def run(self, count: int) -> None:
        self._client.send([self._requests[number % len(self._requests)] for number in range(count)])


def _measure(sender: EngineSender | PycurlSender, count: int) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    sender.run(count)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"posts_per_second": count / wall, "cpu_microseconds": cpu / count * 1e6}


def _print(rounds: dict[str, list[dict[str, float]]], as_json: bool) -> None:
    result: dict[str, Any] = {}
    for name, measured in rounds.items():
        cpu = [values["cpu_microseconds"] for values in measured]
        result[name] = {
            "posts_per_second": round(statistics.median(values["posts_per_second"] for values in measured)),
            "cpu_microseconds_per_post": round(statistics.median(cpu), 1),
            "cpu_spread": [round(min(cpu), 1), round(max(cpu), 1)],
        }
    # Neighbouring rounds are compared, because disturbances of the machine last longer than one round.
    pairs = zip(rounds[ENGINE], rounds[PYCURL], strict=True)
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
    print(f"CPU of the engine ÷ CPU of plain pycurl: {result['cpu_ratio']} ({low} to {high})")


if __name__ == "__main__":
    raise SystemExit(main())
