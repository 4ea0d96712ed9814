"""Whatever an endpoint does: one failed attempt with the right code, in time, and no memory.

All of them are called at once and several times over, by an engine in a process of its own.
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
from tools.support.raw_endpoint import RawEndpoint, answering
from webhookhub.egress.transfer import KEPT_BODY_BYTES, MAX_HEADER_BYTES, MAX_RESPONSE_BYTES

DEADLINE = 2.5  # long enough for fifty endpoints in one process to come round to their misdeeds
ROUNDS = 3
MEGABYTE = 2**20
POLITE = OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
# What an endpoint can be rid of without anybody reading it: the kernel's buffers on both sides.
UNREAD = 12 * MEGABYTE


@dataclass
class Ordeal:
    """What came of each case in each round, and the child's memory before the first and after each."""

    responses: dict[str, list[dict[str, Any]]]
    behaviours: dict[str, Misbehaviour]
    resident: list[int]
    peak: list[int]


@pytest.fixture(scope="module")
def ordeal(certificate_files: tuple[Path, Path]) -> Iterator[Ordeal]:
    authority, server = certificate_files
    behaviours = {case.name: Misbehaviour(case.act) for case in CASES}
    with ExitStack() as stack:
        urls = {}
        for name, behaviour in behaviours.items():
            urls[name] = stack.enter_context(RawEndpoint(server, behaviour)).url
            stack.callback(behaviour.closing.set)
        polite = [stack.enter_context(RawEndpoint(server, answering(POLITE))).url for _ in CASES]
        child = stack.enter_context(
            Child(
                WEBHOOKHUB_CA_BUNDLE=str(authority),
                WEBHOOKHUB_REQUEST_TIMEOUT=str(DEADLINE),
                WEBHOOKHUB_CONNECT_TIMEOUT=str(DEADLINE),
            )
        )
        for _ in range(2):
            warm = child.send(polite)
            assert {response["error_code"] for response in warm["answers"].values()} == {None}
        result = Ordeal({case.name: [] for case in CASES}, behaviours, [warm["resident"]], [warm["peak"]])
        for _ in range(ROUNDS):
            round_ = child.send(list(urls.values()))
            for name, url in urls.items():
                result.answers[name].append(round_["answers"][url])
            result.resident.append(round_["resident"])
            result.peak.append(round_["peak"])
        yield result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_costs_one_attempt_with_the_right_code_in_bounded_time(ordeal: Ordeal, case: Case):
    codes = {response["error_code"] for response in ordeal.answers[case.name]}

    assert codes <= set(case.code.split("|") if case.code else [None])
    assert len(ordeal.behaviours[case.name].requests) == ROUNDS
    for response in ordeal.answers[case.name]:
        assert response["seconds"] < DEADLINE + 1
        assert response["duration_ms"] < (DEADLINE + 1) * 1000
        assert len(response["body"]) <= KEPT_BODY_BYTES


@pytest.mark.parametrize("case", [case for case in CASES if case.code == "response_too_large"], ids=lambda c: c.name)
def test_a_response_that_is_too_large_is_not_read_to_its_end(ordeal: Ordeal, case: Case):
    assert MAX_HEADER_BYTES < MAX_RESPONSE_BYTES < UNREAD
    assert ordeal.behaviours[case.name].sent < ROUNDS * UNREAD


def test_a_compressed_body_is_kept_as_it_came(ordeal: Ordeal):
    for response in ordeal.answers["a gzip bomb"]:
        assert response["body"].encode("latin-1").startswith(b"\x1f\x8b")


def test_memory_does_not_grow(ordeal: Ordeal):
    assert ordeal.resident[-1] - ordeal.resident[0] < 5 * MEGABYTE


def test_memory_does_not_swell_in_between_either(ordeal: Ordeal):
    assert ordeal.peak[-1] - ordeal.peak[0] < 5 * MEGABYTE
