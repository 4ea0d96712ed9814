"""Form fields of the console: times in the viewer's time zone, and the reason for an action."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst, format_lazy
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from webhookhub.validators import REASON_LENGTH, InvalidReason, clean_reason

from .middleware import COOKIE

ZONE_NAME = lazy(lambda: str(get_current_timezone()), str)()
INVALID_TIME = format_lazy(
    gettext_lazy("Enter a date and time such as {example} ({zone})."), example="2026-01-31 18:30", zone=ZONE_NAME
)
REASON_MISSING = gettext_lazy("Give the reason.")


class DateTimeLocalInput(UnfoldAdminTextInputWidget, forms.DateTimeInput):  # type: ignore[misc]
    """The browser's date and time picker, with the time zone it was rendered in as a hidden field."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"step": 1})
        self.format = "%Y-%m-%dT%H:%M:%S"

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        widget = super().render(name, value, attrs, renderer)
        return format_html('{}<input type="hidden" name="{}" value="{}">', widget, COOKIE, ZONE_NAME)


class LocalDateTimeField(forms.DateTimeField):
    """A time in the viewer's time zone. An ISO 8601 time with an offset is accepted too."""

    def __init__(self, label: Any, **options: Any) -> None:
        super().__init__(
            label=format_lazy("{label} ({zone})", label=label, zone=ZONE_NAME),
            widget=DateTimeLocalInput(),
            error_messages={"invalid": INVALID_TIME, "required": INVALID_TIME},
            **options,
        )

    def to_python(self, value: Any) -> datetime | None:
        result = super().to_python(value)
        # The first and the last year overflow when they are converted to another time zone.
        if result is not None and not 1970 < result.year < 9999:
            raise ValidationError(INVALID_TIME, code="invalid")
        return result

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = self.to_python(value)
            except ValidationError:
                return value
        return super().prepare_value(value)


def query_in_utc(form: type[forms.Form], query: QueryDict) -> str | None:
    """Returns the submitted query with its times in UTC and without empty fields, so that its URL can be shared.

    Returns None if the form did not submit the query or if a time is invalid.
    """
    if COOKIE not in query:
        return None
    result = query.copy()
    del result[COOKIE]
    for name, field in form.base_fields.items():
        if not query.get(name):
            result.pop(name, None)
        elif isinstance(field, LocalDateTimeField):
            try:
                value = field.clean(query[name])
            except ValidationError:
                return None
            result[name] = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return result.urlencode()


class ReasonField(forms.CharField):
    """The reason for an action, validated as all reasons are."""

    def __init__(self, *, missing: Any = REASON_MISSING, **options: Any) -> None:
        defaults = {
            "label": gettext_lazy("Reason"),
            "help_text": gettext_lazy("Recorded in the audit log with your name and the time."),
            "max_length": REASON_LENGTH,
            "widget": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
            "error_messages": {"required": missing},
        }
        super().__init__(**{**defaults, **options})

    def to_python(self, value: Any) -> str:
        text = super().to_python(value) or ""
        try:
            return clean_reason(text) if text else ""
        except InvalidReason as error:
            raise ValidationError(_("%(sentence)s.") % {"sentence": capfirst(str(error))}, code="invalid") from None
