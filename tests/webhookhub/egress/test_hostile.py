"""A misbehaving endpoint costs one failed attempt with the right code, bounded time and no memory.

All endpoints are called at once, in several rounds, by an engine in a separate process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.egress_child import Child
from tests.support.hostile import CASES, OK, Case, Misbehaviour
from tools.support.raw_endpoint import RawEndpoint, responding
from webhookhub.egress.messages import KEPT_BODY_BYTES
from webhookhub.egress.transfer import MAX_HEADER_BYTES, MAX_RESPONSE_BYTES

DEADLINE = 2.5  # long enough for fifty endpoints in one process
ROUNDS = 3
MEGABYTE = 2**20
GOOD = OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
# What an endpoint can send although it is not read: the kernel's buffers on both sides.
UNREAD = 12 * MEGABYTE


@dataclass
class Results:
    """The responses of each case in each round, and the child's memory before the first round and after each."""

    responses: dict[str, list[dict[str, Any]]]
    behaviours: dict[str, Misbehaviour]
    resident: list[int]
    peak: list[int]


@pytest.fixture(scope="module")
def results(certificate_files: tuple[Path, Path]) -> Iterator[Results]:
    authority, server = certificate_files
    behaviours = {case.name: Misbehaviour(case.act) for case in CASES}
    with ExitStack() as stack:
        urls = {}
        for name, behaviour in behaviours.items():
            urls[name] = stack.enter_context(RawEndpoint(server, behaviour)).url
            stack.callback(behaviour.closing.set)
        good_urls = [stack.enter_context(RawEndpoint(server, responding(GOOD))).url for _ in CASES]
        child = stack.enter_context(
            Child(
                WEBHOOKHUB_CA_BUNDLE=str(authority),
                WEBHOOKHUB_REQUEST_TIMEOUT=str(DEADLINE),
                WEBHOOKHUB_CONNECT_TIMEOUT=str(DEADLINE),
            )
        )
        for _ in range(2):
            warm = child.send(good_urls)
            assert {response["error_code"] for response in warm["responses"].values()} == {None}
        result = Results({case.name: [] for case in CASES}, behaviours, [warm["resident"]], [warm["peak"]])
        for _ in range(ROUNDS):
            round_ = child.send(list(urls.values()))
            for name, url in urls.items():
                result.responses[name].append(round_["responses"][url])
            result.resident.append(round_["resident"])
            result.peak.append(round_["peak"])
        yield result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_costs_one_attempt_with_the_right_code_in_bounded_time(results: Results, case: Case):
    codes = {response["error_code"] for response in results.responses[case.name]}

    assert codes <= set(case.code.split("|") if case.code else [None])
    assert len(results.behaviours[case.name].requests) == ROUNDS
    for response in results.responses[case.name]:
        assert response["seconds"] < DEADLINE + 1
        assert response["duration_ms"] < (DEADLINE + 1) * 1000
        assert len(response["body"]) <= KEPT_BODY_BYTES


@pytest.mark.parametrize("case", [case for case in CASES if case.code == "response_too_large"], ids=lambda c: c.name)
def test_a_response_that_is_too_large_is_not_read_to_its_end(results: Results, case: Case):
    assert MAX_HEADER_BYTES < MAX_RESPONSE_BYTES < UNREAD
    assert results.behaviours[case.name].sent < ROUNDS * UNREAD


def test_a_compressed_body_is_stored_compressed(results: Results):
    for response in results.responses["a gzip bomb"]:
        assert response["body"].encode("latin-1").startswith(b"\x1f\x8b")


def test_memory_does_not_grow(results: Results):
    assert results.resident[-1] - results.resident[0] < 5 * MEGABYTE


def test_the_peak_of_memory_does_not_grow(results: Results):
    assert results.peak[-1] - results.peak[0] < 5 * MEGABYTE
