"""A reason may contain any script, but no characters that act on a terminal or reorder text."""

from __future__ import annotations

import pytest

from webhookhub.validators import InvalidReason, clean_reason

ACCEPTED = [
    "端點已修復\u3000請重送",
    "réparé\u00a0!",
    "👩\u200d🔧 mended it",
    "می\u200cخواهم",
    "a\u2009thin\u202fspace",
    "two\nlines",
    "soft\u00adhyphen",
    "\u05d0\u200f!",
]
FORBIDDEN = {
    "reversed": "a\u202eb",
    "only direction marks": "\u202e\u202e",
    "isolated": "a\u2066b",
    "a terminal's command": "a\x1b[2Jb",
    "a null": "a\0b",
    "a C1 control": "a\x9bb",
    "a lone carriage return": "a\rb",
    "a noncharacter": "a\uffffb",
}
EMPTY = ["", "   ", "\u3000", "\u200d", "\u200b\u2060\ufeff", "\u2800", "\u3164", "\n\n", "\u0301"]


@pytest.mark.parametrize("reason", ACCEPTED)
def test_text_of_any_script_is_kept(reason: str):
    assert clean_reason(f" {reason}\u3000\r\n") == reason


@pytest.mark.parametrize("reason", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_character_is_refused_by_its_code(reason: str):
    with pytest.raises(InvalidReason, match=rf"reason must not contain control .* such as U\+{ord(reason[1]):04X}$"):
        clean_reason(reason)


def test_a_lone_surrogate_is_refused():
    with pytest.raises(InvalidReason) as refused:
        clean_reason("a\ud800")

    assert str(refused.value).endswith("such as U+D800")


@pytest.mark.parametrize("reason", [*EMPTY, "x" * 501])
def test_an_empty_or_long_reason_is_refused(reason: str):
    with pytest.raises(InvalidReason, match="reason must be a text of 1 to 500 characters"):
        clean_reason(reason)


def test_the_length_counts_line_ends_as_stored():
    assert len(clean_reason("\r\n".join("x" * 250))) == 499
