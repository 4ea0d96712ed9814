"""Why somebody did something: one rule for what a reason may be, whoever gives it and whatever for.

It is shown to others. So nothing in it may act upon a terminal, or show the text around it in another order than it
has; whatever else people write is theirs to write, in any language.
"""

from __future__ import annotations

from unicodedata import category

from django.utils.translation import gettext as _

REASON_LENGTH = 500
# Embeddings, overrides and isolates of direction.
TURNING = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
# Of the letters and signs, those that look like a space.
BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
CONTROL, SURROGATE = "Cc", "Cs"
UNSEEN = ("Cf", "Mn", "Me")


class UnacceptableReason(ValueError):
    """`why` says what would be right, after the field's name."""

    def __init__(self, why: str) -> None:
        super().__init__(_("reason %(why)s") % {"why": why})
        self.why = why


def checked(reason: str) -> str:
    """The reason as it is kept: trimmed, its lines ended in one way. Raises UnacceptableReason."""
    reason = reason.strip().replace("\r\n", "\n")
    if len(reason) > REASON_LENGTH or all(_is_blank(character) for character in reason):
        raise UnacceptableReason(_("must be a text of 1 to %(limit)s characters") % {"limit": REASON_LENGTH})
    for character in reason:
        if _is_hostile(character):
            why = _(
                "must hold no control characters but line breaks, and no marks that turn text round, as %(code)s is"
            )
            raise UnacceptableReason(why % {"code": f"U+{ord(character):04X}"})
    return reason


def _is_hostile(character: str) -> bool:
    return character in TURNING or (category(character) in (CONTROL, SURROGATE) and character != "\n")


def _is_blank(character: str) -> bool:
    """Not those that are hostile: they are told apart by name."""
    if _is_hostile(character):
        return False
    return character.isspace() or character in BLANKS or category(character) in UNSEEN
