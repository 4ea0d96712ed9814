"""The part of a response body that is stored."""

from __future__ import annotations

import pytest

from webhookhub.egress.messages import SNIPPET_LENGTH, snippet


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", ""),
        (b"ok", "ok"),
        (b"two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("é😀".encode(), "é😀"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\0b", "a\ufffdb"),
        (b"\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        (b"a\rb\x07\x7f", "a\ufffdb\ufffd\ufffd"),
        ("\u202eevil\u2028".encode(), "\ufffdevil\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"x" * 5000, "x" * SNIPPET_LENGTH),
        (b"\xff" * 5000, "\ufffd" * SNIPPET_LENGTH),
    ],
)
def test_a_snippet_is_bounded_text_without_control_characters(body: bytes, kept: str):
    assert snippet(body.decode("utf-8", errors="replace")) == kept
