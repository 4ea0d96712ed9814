"""schemathesis checks a running server against its own schema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from api import keys
from api.scopes import SCOPES
from events.intake import publish
from tests.support import rows
from tests.support.web import WebServer

pytestmark = pytest.mark.usefixtures("committed")

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
]

# A batch with invalid events is accepted; each event has its own status in the response.
BATCH = "/api/v1/events/batch"
NOT_FOR_BATCHES = "negative_data_rejection"
# 414 and 431 come from the web server itself.
CONFIGURATION = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431, 503]
"""


@pytest.fixture
def key(committed: None) -> str:
    publish("order.created", {"n": 1})
    rows.dead_letter("http_500")
    return keys.create("schemathesis", SCOPES, by="tests", events_per_second=100_000)[1]


@pytest.mark.parametrize(
    ("paths", "checks"),
    [
        (["--exclude-path", BATCH], CHECKS),
        (["--include-path", BATCH], [check for check in CHECKS if check != NOT_FOR_BATCHES]),
    ],
    ids=["", "batch"],
)
def test_the_server_conforms_to_its_schema(
    web: WebServer, key: str, tmp_path: Path, paths: list[str], checks: list[str]
):
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)

    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"),
            *("run", f"{web.url}/api/openapi.json", *paths),
            *("--header", f"Authorization: Bearer {key}"),
            *("--checks", ",".join(checks)),
            *("--phases", "examples,coverage,fuzzing"),
            *("--max-examples", "15"),
            *("--request-timeout", "30"),
            "--generation-deterministic",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    output = "\n".join(line[:300] for line in done.stdout.split("\n"))
    assert done.returncode == 0, output[-10_000:] + done.stderr
