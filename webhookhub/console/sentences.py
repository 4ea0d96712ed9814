"""What happened to a delivery, in plain words: an error code, how often and for how long, and what comes next."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from . import format, plain


def trouble(code: str, attempts: int, lasting: timedelta | None = None, *, at_least: bool = False) -> str:
    """`The endpoint answered 503, 4 times in a row over 6 h`; begins a sentence. `at_least`: there may be more."""
    words = capital(format.in_words(code))
    if attempts <= 1:
        return words
    times = _in_a_row(attempts, at_least)
    if not lasting:
        return _("%(trouble)s, %(times)s") % {"trouble": words, "times": times}
    return _("%(trouble)s, %(times)s over %(duration)s") % {
        "trouble": words,
        "times": times,
        "duration": _lasting(lasting, at_least),
    }


def still_failing(code: str, attempts: int, lasting: timedelta, *, at_least: bool = False) -> str:
    """`The endpoint answered 503 for 6 h, 4 times in a row`, until now; one attempt says nothing of a time between."""
    words = capital(format.in_words(code))
    if attempts <= 1:
        return _("%(trouble)s, %(duration)s ago") % {"trouble": words, "duration": plain.duration(lasting)}
    return _("%(trouble)s for %(duration)s, %(times)s") % {
        "trouble": words,
        "times": _in_a_row(attempts, at_least),
        "duration": _lasting(lasting, at_least),
    }


def _in_a_row(attempts: int, at_least: bool) -> str:
    if at_least:
        pattern = ngettext("at least %(number)s time in a row", "at least %(number)s times in a row", attempts)
    else:
        pattern = ngettext("%(number)s time in a row", "%(number)s times in a row", attempts)
    return str(pattern % {"number": attempts})


def _lasting(length: timedelta, at_least: bool) -> str:
    duration = plain.duration(length)
    return _("at least %(duration)s") % {"duration": duration} if at_least else duration


def undelivered(code: str, lasting: timedelta) -> str:
    """For whoever does not know when it failed."""
    told = {"trouble": capital(format.in_words(code)), "duration": plain.duration(lasting)}
    return _("%(trouble)s; undelivered for %(duration)s") % told


def delivered(attempts: int, last_error: str | None) -> str:
    if attempts <= 1 or not last_error:
        return _("Delivered at the first attempt.") if attempts <= 1 else _("Delivered.")
    return _("Delivered at attempt %(number)s. Before that, %(error)s.") % {
        "number": attempts,
        "error": format.in_words(last_error),
    }


def given_up(trouble: str, attempts: int) -> str:
    pattern = ngettext(
        "%(trouble)s. The hub gave up after %(number)s attempt; nothing more is tried until it is requeued.",
        "%(trouble)s. The hub gave up after %(number)s attempts; nothing more is tried until it is requeued.",
        attempts,
    )
    return str(pattern % {"trouble": trouble, "number": attempts})


def requeued_since(trouble: str, attempts: int, delivery: str, status: str) -> str:
    """Markup: `delivery` is a link to the one that came of it."""
    pattern = ngettext(
        "{trouble}. The hub gave up after {number} attempt; it was requeued as {delivery} ({status}).",
        "{trouble}. The hub gave up after {number} attempts; it was requeued as {delivery} ({status}).",
        attempts,
    )
    return format_html(pattern, trouble=trouble, number=attempts, delivery=delivery, status=status)


def tries_again(trouble: str, at: datetime) -> str:
    """Markup: the time is one that the viewer's zone is given to."""
    return format_html(_("{trouble}; next try at {at}."), trouble=trouble, at=format.moment(at))


def waits(trouble: str | None) -> str:
    """Of one that is held back: nobody knows until when."""
    return _("Waits for its first attempt.") if trouble is None else _("%(trouble)s.") % {"trouble": trouble}


def begins(at: datetime) -> str:
    return format_html(_("Waits for its first attempt, at {at}."), at=format.moment(at))


def under_way(number: int) -> str:
    return _("Attempt %(number)s is under way.") % {"number": number}


def held_back(active: bool, verified: bool) -> str | None:
    """Why nothing is sent to a subscription for the time being; None if there is no reason."""
    if not active:
        return _("The subscription is switched off: its deliveries wait until it is switched on again.")
    if not verified:
        return _("The subscription is not verified: its deliveries wait until it is.")
    return None


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
