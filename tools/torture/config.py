"""The options of a run, and the hub's settings: short intervals, so that much happens."""

from __future__ import annotations

import os
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.demo.folders import SAMPLE_WORKFLOWS
from webhookhub.crypto import new_key

PRODUCERS = 8
LOOPS = {"router": 2, "orchestrator": 2, "worker": 3, "cleaner": 2, "workflows": 2}
# With --one-process, each process runs all steps.
HUB = "hub"
HUBS = 3
EVERY_LOOP = (*LOOPS, HUB)
WEB = "web"
LEASE_SECONDS = 5.0
REQUEST_SECONDS = 2.0
CONNECT_SECONDS = 1.5
MAX_LEASE_RESETS = 5
CONCURRENCY = 16
RETRY_LIMIT = 8
REFUSED_LIMIT = 3

SETTINGS = {
    "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
    "WEBHOOKHUB_ALLOWED_PORTS": "1024-65535",
    "WEBHOOKHUB_LEASE": str(LEASE_SECONDS),
    "WEBHOOKHUB_LEASE_MARGIN": "0.5",
    "WEBHOOKHUB_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
    "WEBHOOKHUB_CONNECT_TIMEOUT": str(CONNECT_SECONDS),
    "WEBHOOKHUB_MAX_LEASE_RESETS": str(MAX_LEASE_RESETS),
    "WEBHOOKHUB_WORKER_CONCURRENCY": str(CONCURRENCY),
    "WEBHOOKHUB_REQUESTS_PER_HOST": "8",
    "WEBHOOKHUB_BASE_DELAY": "0.2",
    "WEBHOOKHUB_MAX_DELAY": "2",
    "WEBHOOKHUB_RETRY_AFTER_CAP": "2",
    "WEBHOOKHUB_MAX_RETRY_LIMIT": str(RETRY_LIMIT),
    "WEBHOOKHUB_POLL_INTERVAL": "0.1",
    "WEBHOOKHUB_BATCH_SIZE": "100",
    "WEBHOOKHUB_HEARTBEAT": "1",
    "WEBHOOKHUB_PROCESS_EXPIRY": "20",
    "WEBHOOKHUB_DRAIN": "10",
    "WEBHOOKHUB_LOG_FORMAT": "json",
    "WEBHOOKHUB_WORKFLOW_DEFINITIONS": str(SAMPLE_WORKFLOWS),
    "DJANGO_SETTINGS_MODULE": "webhookhub.settings",
}


def plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


@dataclass(frozen=True)
class Config:
    """`…_mean` is the mean time between two faults of a kind, in seconds; 0 disables the kind."""

    seconds: float = 90.0
    events: int = 2000
    seed: int = 0
    kill_mean: float = 0.5
    stop_mean: float = 4.0
    cut_mean: float = 2.0
    producer_kill_mean: float = 15.0
    web_kill_mean: float = 12.0
    database_kills: int = 3
    # Time for everything to end after the last fault: the longest pause of a loop without a database (5 s), a lease,
    # all retries of a new delivery, and a busy machine.
    converge_seconds: float = 120.0
    one_process: bool = False

    @property
    def loops(self) -> dict[str, int]:
        """How many processes of each kind run."""
        return {HUB: HUBS} if self.one_process else LOOPS

    def random(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}:{purpose}")

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def environment(url: str, authority: Path) -> dict[str, str]:
    """Environment variables for every process of the run, without inherited settings of the hub."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("WEBHOOKHUB_") and name not in ("DATABASE_URL", "TEST_DATABASE_URL")
    }
    return {
        **inherited,
        **SETTINGS,
        "DATABASE_URL": url,
        "WEBHOOKHUB_CA_BUNDLE": str(authority),
        "WEBHOOKHUB_SECRET_KEY": "only for tests",
        "WEBHOOKHUB_ENCRYPTION_KEYS": new_key(),
    }
