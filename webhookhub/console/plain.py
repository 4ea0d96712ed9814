"""Numbers and durations as people say them, in the viewer's language."""

from __future__ import annotations

from datetime import timedelta

from django.utils.translation import gettext as _

from .format import NOTHING

MINUTE, HOUR, DAY = 60, 3600, 86400


def number(value: int) -> str:
    return f"{value:,}"


def share(value: float | None) -> str:
    """A part of the whole in percent; all is said of nothing less than all."""
    if value is None:
        return NOTHING
    percent = value * 100
    return f"{percent:.0f} %" if percent in (0, 100) else f"{min(max(percent, 0.1), 99.9):.1f} %"


def milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value < 1000:
        return _("%(number)s ms") % {"number": f"{value:.0f}"}
    return duration(timedelta(milliseconds=value))


def duration(length: timedelta) -> str:
    """To about two digits: `1.5 s`, `40 s`, `12 min`, `6 h`, `3 d`."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return _("%(number)s s") % {"number": f"{seconds:.2g}"}
    if seconds < 2 * MINUTE:
        return _("%(number)s s") % {"number": round(seconds)}
    if seconds < 2 * HOUR:
        return _("%(number)s min") % {"number": round(seconds / MINUTE)}
    if seconds < 2 * DAY:
        return _("%(number)s h") % {"number": round(seconds / HOUR)}
    return _("%(number)s d") % {"number": round(seconds / DAY)}
