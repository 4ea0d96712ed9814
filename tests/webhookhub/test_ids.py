"""Identifiers are unique and random, and UIDs are ordered by time."""

from __future__ import annotations

import time
import uuid

from webhookhub.ids import new_token, new_uid


def test_a_uid_is_a_uuid_of_version_7():
    for _ in range(100):
        uid = new_uid()
        assert uid.version == 7
        assert uid.variant == uuid.RFC_4122


def test_a_uid_contains_its_time_in_milliseconds():
    before = time.time_ns() // 1_000_000
    uid = new_uid()
    after = time.time_ns() // 1_000_000

    assert before <= uid.int >> 80 <= after


def test_a_later_uid_sorts_after_an_earlier_one():
    first = new_uid()
    while time.time_ns() // 1_000_000 == first.int >> 80:
        pass

    assert new_uid() > first


def test_uids_of_the_same_time_differ():
    assert len({new_uid() for _ in range(2_000)}) == 2_000


def test_tokens_are_32_hexadecimal_digits_and_differ():
    tokens = {new_token() for _ in range(1_000)}

    assert len(tokens) == 1_000
    assert all(len(token) == 32 and int(token, 16) for token in tokens)
