"""Why somebody did something: one rule for what a reason may be, whoever gives it and whatever for.

It is shown to others, and held to what any such text is (`texts`).
"""

from __future__ import annotations

from unicodedata import category

from django.utils.translation import gettext as _

from .validators import complaint, hostile, is_hostile

REASON_LENGTH = 500
# Of the letters and signs, those that look like a space.
BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
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
    if code := hostile(reason):
        raise UnacceptableReason(complaint(code))
    return reason


def _is_blank(character: str) -> bool:
    """Not those that are hostile: they are told apart by name."""
    if is_hostile(character):
        return False
    return character.isspace() or character in BLANKS or category(character) in UNSEEN
