"""What a reason may be: whatever people write, and nothing that acts upon whoever reads it."""

from __future__ import annotations

import pytest

from webhookhub.reasons import UnacceptableReason, checked

WRITTEN = [
    "端點已修復\u3000請重送",
    "réparé\u00a0!",
    "👩\u200d🔧 mended it",
    "می\u200cخواهم",
    "a\u2009thin\u202fspace",
    "two\nlines",
    "soft\u00adhyphen",
    "\u05d0\u200f!",
]
UNACCEPTABLE = {
    "turned round": "a\u202eb",
    "nothing but what turns round": "\u202e\u202e",
    "isolated": "a\u2066b",
    "a terminal's command": "a\x1b[2Jb",
    "a null": "a\0b",
    "a C1 control": "a\x9bb",
    "a lone carriage return": "a\rb",
    "no character at all": "a\uffffb",
}
UNSAID = ["", "   ", "\u3000", "\u200d", "\u200b\u2060\ufeff", "\u2800", "\u3164", "\n\n", "\u0301"]


@pytest.mark.parametrize("reason", WRITTEN)
def test_what_people_write_is_kept_as_they_wrote_it(reason: str):
    assert checked(f" {reason}\u3000\r\n") == reason


@pytest.mark.parametrize("reason", UNACCEPTABLE.values(), ids=UNACCEPTABLE)
def test_what_acts_upon_whoever_reads_it_is_refused_by_name(reason: str):
    with pytest.raises(UnacceptableReason, match=rf"reason must hold no control .* as U\+{ord(reason[1]):04X} is"):
        checked(reason)


def test_half_a_character_is_refused_and_can_be_told_of():
    with pytest.raises(UnacceptableReason) as refused:
        checked("a\ud800")

    assert str(refused.value).endswith("as U+D800 is")


@pytest.mark.parametrize("reason", [*UNSAID, "x" * 501])
def test_a_reason_says_something_and_not_too_much(reason: str):
    with pytest.raises(UnacceptableReason, match="reason must be a text of 1 to 500 characters"):
        checked(reason)


def test_lines_count_as_they_are_kept():
    assert len(checked("\r\n".join("x" * 250))) == 499
