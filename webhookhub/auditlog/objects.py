"""What an entry is about, in the viewer's language. It is kept in English; what others have named stays as it is."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

PARTED = re.compile(r"(.*?)(?: \((part \d+(?: of \d+)?)\))?", re.DOTALL)
PART = re.compile(r"part (\d+)(?: of (\d+))?")
ONE, MANY, ALL = re.compile(r"dead letter (\d+)"), re.compile(r"(\d+) dead letters"), "all dead letters"
# As `deadletters.filters` says what was chosen; the longer names first.
CHOSEN = ("event type", "event", "error", "subscription", "source", "since", "until", "delivery", "search")


def thing(kind: str, id: int | None, name: str) -> str:
    if kind == "deadletter":
        return _dead_letters(name)
    if kind == "subscription" and name == f"subscription {id}":
        return _("subscription %(number)s") % {"number": id}
    return _("all subscriptions") if id is None and name == "all subscriptions" else name


def _dead_letters(name: str) -> str:
    """One, several, or those that a filter has chosen; perhaps a part of them."""
    parted = PARTED.fullmatch(name)
    if parted is None or parted[2] is None:
        return _letters(name)
    return f"{_letters(parted[1])} ({part(parted[2])})"


def part(text: str) -> str:
    found = PART.fullmatch(text)
    if found is None:
        return text
    if found[2] is None:
        return _("part %(part)s") % {"part": found[1]}
    return _("part %(part)s of %(parts)s") % {"part": found[1], "parts": found[2]}


def _letters(name: str) -> str:
    if one := ONE.fullmatch(name):
        return _("dead letter %(number)s") % {"number": one[1]}
    if many := MANY.fullmatch(name):
        return _("%(number)s dead letters") % {"number": many[1]}
    if name == ALL:
        return _("all dead letters")
    return ", ".join(map(_condition, name.split(", ")))


def _condition(text: str) -> str:
    for word in CHOSEN:
        if text.startswith(f"{word} "):
            return f"{_(word)} {text.removeprefix(word).strip()}"
    return text
