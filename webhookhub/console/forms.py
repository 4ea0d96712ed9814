"""Times that people type, and how a time is written so that it can be typed again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminTextInputWidget

from .timezone import COOKIE, NAME, key

EXAMPLE = "2026-01-31 18:30"
NOT_A_TIME = format_lazy(gettext_lazy("Write the time as {example} ({zone})."), example=EXAMPLE, zone=NAME)


class MomentInput(UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """In the viewer's zone, which is sent with it; pointed at, it says the moment in UTC, as those in a page do."""

    def format_value(self, value: Any) -> str | None:
        moment = _read(value)
        return written(moment) if moment else super().format_value(value)

    def get_context(self, name: str, value: Any, attrs: Any) -> Any:
        moment = _read(value)
        title = {"title": f"{moment:%Y-%m-%d %H:%M:%S}{_fraction(moment)} UTC"} if moment else {}
        return super().get_context(name, value, {**(attrs or {}), **title})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        shown = super().render(name, value, attrs, renderer)
        return format_html('{}<input type="hidden" name="{}" value="{}">', shown, COOKIE, key())


class MomentField(forms.DateTimeField):
    """A moment, typed in the viewer's zone or with an offset of its own; cleaned, it is in UTC."""

    def __init__(self, label: Any, **options: Any) -> None:
        attributes = {"placeholder": EXAMPLE, "spellcheck": "false", "autocomplete": "off"}
        super().__init__(
            label=format_lazy("{label} ({zone})", label=label, zone=NAME),
            widget=MomentInput(attrs=attributes),
            error_messages={"invalid": NOT_A_TIME, "required": NOT_A_TIME},
            **options,
        )

    def prepare_value(self, value: Any) -> Any:
        # Django would take the zone from it; the widget writes it.
        return value

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        moment = value if isinstance(value, datetime) else self._parsed(str(value).strip())
        # Far from the first and the last year: a zone may lie a day ahead or behind.
        if not 1970 < moment.year < 9999:
            raise ValidationError(NOT_A_TIME, code="invalid")
        return moment.astimezone(UTC) if moment.tzinfo else _settled(moment)

    def _parsed(self, text: str) -> datetime:
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None:
            # Perhaps in one of the forms that are usual in the viewer's language.
            usual: Any = super(forms.DateTimeField, self).to_python(text)
            return cast(datetime, usual)
        return found


def written(moment: datetime, *, exactly: bool = False) -> str:
    """In the viewer's zone, to the last digit; with its offset if `exactly`, or in an hour that the zone has twice."""
    local = moment.astimezone(get_current_timezone())
    seconds = f":{local:%S}" if local.second or local.microsecond else ""
    is_twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    return f"{local:%Y-%m-%d %H:%M}{seconds}{_fraction(local)}{_offset(local) if exactly or is_twice else ''}"


def named(moment: datetime) -> str:
    """Within a sentence: `2026-01-31 18:30 (Asia/Taipei)`."""
    return f"{written(moment)} ({NAME})"


def in_utc(moment: datetime) -> str:
    """For an address: it means the same to whoever it is given to."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def query_in_utc(form: type[forms.Form], query: QueryDict) -> str | None:
    """What such a form has sent, with its times in UTC and without what was left empty.

    None if the query is not a form's, or has a time that cannot be read.
    """
    if COOKIE not in query:
        return None
    settled = query.copy()
    del settled[COOKIE]
    for name, field in form.base_fields.items():
        try:
            moment = field.to_python(query.get(name)) if isinstance(field, MomentField) else None
        except ValidationError:
            return None
        if moment is not None:
            settled[name] = in_utc(moment)
        elif not query.get(name):
            settled.pop(name, None)
    return settled.urlencode()


def _settled(naive: datetime) -> datetime:
    """The moment at which the clocks of the viewer's zone show this."""
    zone = get_current_timezone()
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return first
    if first.astimezone(zone).replace(tzinfo=None, fold=0) == naive:
        said = gettext(
            "In %(zone)s the clocks show %(time)s twice that day. Write %(first)s or, for the second, %(second)s."
        )
    else:
        said = gettext("In %(zone)s the clocks leave out %(time)s that day. Write %(first)s or, after it, %(second)s.")
    readings = [written(moment, exactly=True) for moment in sorted((first, second))]
    given = {"zone": NAME, "time": f"{naive:%Y-%m-%d %H:%M}", "first": readings[0], "second": readings[1]}
    raise ValidationError(said % given, code="invalid")


def _fraction(moment: datetime) -> str:
    return f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""


def _offset(moment: datetime) -> str:
    return moment.isoformat()[len(moment.replace(tzinfo=None).isoformat()) :]


def _read(value: Any) -> datetime | None:
    try:
        return MomentField("").to_python(value)
    except ValidationError:
        return None
