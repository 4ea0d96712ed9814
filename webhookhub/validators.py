"""Rules for texts that one person writes and others read: descriptions, and the reasons of operators' actions.

Such a text must not control a terminal, break a document that contains it, or reorder the text around it.
"""

from __future__ import annotations

from unicodedata import category

from django.utils.translation import gettext as _

REASON_LENGTH = 500
# Embeddings, overrides and isolates of text direction.
DIRECTION_MARKS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
# Not characters; XML does not allow them.
NONCHARACTERS = frozenset("\ufffe\uffff")
CONTROL, SURROGATE = "Cc", "Cs"
# Letters and symbols that look like a space.
BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
INVISIBLE = ("Cf", "Mn", "Me")


class InvalidReason(ValueError):
    """`why` says what a reason must be, without the field's name."""

    def __init__(self, why: str) -> None:
        super().__init__(_("reason %(why)s") % {"why": why})
        self.why = why


def is_forbidden(character: str) -> bool:
    if character in DIRECTION_MARKS or character in NONCHARACTERS:
        return True
    return category(character) in (CONTROL, SURROGATE) and character != "\n"


def first_forbidden(text: str) -> str | None:
    """The code of the first forbidden character, such as U+202E."""
    return next((f"U+{ord(character):04X}" for character in text if is_forbidden(character)), None)


def forbidden_message(code: str) -> str:
    why = _("must not contain control characters (except line breaks) or marks that reverse text, such as %(code)s")
    return why % {"code": code}


def clean_reason(reason: str) -> str:
    """The reason as it is stored: trimmed, with \\n as line ends. Raises InvalidReason."""
    reason = reason.strip().replace("\r\n", "\n")
    if len(reason) > REASON_LENGTH or all(_is_blank(character) for character in reason):
        raise InvalidReason(_("must be a text of 1 to %(limit)s characters") % {"limit": REASON_LENGTH})
    if code := first_forbidden(reason):
        raise InvalidReason(forbidden_message(code))
    return reason


def _is_blank(character: str) -> bool:
    """Forbidden characters do not count as blank: they have their own message."""
    if is_forbidden(character):
        return False
    return character.isspace() or character in BLANKS or category(character) in INVISIBLE
