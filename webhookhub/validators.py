"""What no text may hold that one person writes and others are shown.

Nothing in it may act upon a terminal, break a document that it is put into, or show the text around it in another order
than it has; whatever else people write is theirs to write, in any language.
"""

from __future__ import annotations

from unicodedata import category

from django.utils.translation import gettext as _

# Embeddings, overrides and isolates of direction.
TURNING = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
# No characters at all; XML has no place for them.
NO_CHARACTERS = frozenset("\ufffe\uffff")
CONTROL, SURROGATE = "Cc", "Cs"


def is_hostile(character: str) -> bool:
    if character in TURNING or character in NO_CHARACTERS:
        return True
    return category(character) in (CONTROL, SURROGATE) and character != "\n"


def hostile(text: str) -> str | None:
    """The first that it must not hold, by its code, such as U+202E; None if there is none. Line breaks are harmless."""
    return next((f"U+{ord(character):04X}" for character in text if is_hostile(character)), None)


def complaint(code: str) -> str:
    """What is said of such a text, after its field's name."""
    why = _("must hold no control characters but line breaks, and no marks that turn text round, as %(code)s is")
    return why % {"code": code}
