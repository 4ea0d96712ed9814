"""The forms of the dead letter pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.http import urlencode
from django.utils.text import capfirst, format_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from webhookhub.console import format
from webhookhub.console.forms import LocalDateTimeField, ReasonField
from webhookhub.egress.error_codes import MEANING
from webhookhub.search_terms import MAX_ID, parse_error_code, parse_id

from .bulk_requeue import MAX_LIMIT
from .filters import EVENT_TYPE, DeadLetterFilter, Position
from .models import DeadLetter
from .requeue import InvalidRequeue, WouldWait

MAX_SELECTED = 1000
TOO_MANY = format_lazy(_("You can requeue at most {number} selected dead letters at once."), number=MAX_SELECTED)
ONE_AT_A_TIME = _("You may requeue only one dead letter at a time.")
REQUEUED = {"": None, "no": False, "yes": True}
# Set by links from other pages; shown only if they are set.
LINKED = ("event", "saga")


def _text(**attributes: str) -> Any:
    return UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off", **attributes})


def _id(label: Any) -> forms.IntegerField:
    invalid = _("Enter a whole number, such as 12.")
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=1,
        max_value=MAX_ID,
        widget=_text(inputmode="numeric"),
        error_messages={"invalid": invalid, "min_value": invalid, "max_value": _("This number is too large.")},
    )


class FilterForm(forms.Form):
    """The query of the list: the filter, the search and the position."""

    # Suggestions; any other code can be typed.
    error_codes = (*MEANING, *(f"http_{status}" for status in (400, 401, 403, 404, 410, 429, 500, 502, 503, 504)))

    error_code = forms.CharField(
        label=_("Error code"), required=False, max_length=100, widget=_text(list="hub-error-codes")
    )
    subscription = _id(_("Subscription number"))
    event_type = forms.RegexField(
        EVENT_TYPE,
        label=_("Event type"),
        required=False,
        widget=_text(),
        error_messages={"invalid": _("An event type has letters, digits, dots, dashes and underscores.")},
    )
    customer = forms.CharField(label=_("Customer"), required=False, max_length=100, widget=_text())
    since = LocalDateTimeField(_("Failed since"), required=False)
    until = LocalDateTimeField(_("Failed until"), required=False)
    requeued = forms.ChoiceField(
        label=_("Requeued"),
        required=False,
        choices=[("", _("Any")), ("no", _("No")), ("yes", _("Yes"))],
        widget=UnfoldAdminSelectWidget,
    )
    event = _id(_("Event number"))
    saga = _id(_("Delivery number"))
    q = forms.CharField(required=False, widget=forms.HiddenInput)
    # With `until`, the position to continue from: of the dead letters that failed at that time, only lower ids follow.
    before_id = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID, widget=forms.HiddenInput)

    def clean_error_code(self) -> str:
        """`HTTP_404` and `404` mean `http_404`."""
        text: str = self.cleaned_data["error_code"]
        return parse_error_code(text) or parse_error_code(f"{format.HTTP}{text}") or text

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["until"] < data["since"]:
            self.add_error("until", _("This time is before “Failed since”."))
        return data

    @property
    def is_given(self) -> bool:
        return bool(self.query)

    @property
    def shown_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name not in LINKED or self.data.get(field.name)]

    @property
    def query(self) -> dict[str, str]:
        """The parameters that are not empty."""
        return {name: self.data[name] for name in self.fields if self.data.get(name, "").strip()}

    @property
    def list_url(self) -> str:
        return format.list_url(DeadLetter, urlencode(self.query))

    def position(self) -> Position | None:
        """Where the list continues; None from the start."""
        until, before_id = self.cleaned_data["until"], self.cleaned_data["before_id"]
        return Position(until, before_id) if until and before_id else None

    def letter_filter(self) -> DeadLetterFilter:
        data = self.cleaned_data
        return DeadLetterFilter(
            error_code=data["error_code"] or None,
            subscription_id=data["subscription"],
            event_type=data["event_type"] or None,
            customer=data["customer"] or None,
            since=data["since"],
            until=data["until"],
            event_id=data["event"],
            saga_id=data["saga"],
            search=data["q"] or None,
            requeued=REQUEUED[data["requeued"]],
        )


class LimitForm(forms.Form):
    limit = forms.IntegerField(
        label=_("Limit"),
        min_value=1,
        max_value=MAX_LIMIT,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"}),
        help_text=_("The oldest failures are requeued first. You can requeue the rest afterwards."),
    )


class ConfirmForm(forms.Form):
    reason = ReasonField(
        help_text=_("Saved with each dead letter and in the audit log, with your name and the time."),
        missing=_("Give a reason for the requeue."),
    )
    # Shown if new deliveries would wait.
    allow_waiting = forms.BooleanField(
        label=_("Requeue anyway: the new deliveries wait until their subscriptions are active and verified"),
        required=False,
        widget=UnfoldBooleanWidget(attrs={"required": True}),
    )

    def refuse(self, error: InvalidRequeue) -> None:
        """Show why nothing was requeued."""
        self.add_error("allow_waiting" if isinstance(error, WouldWait) else None, f"{capfirst(str(error))}.")


class RequeueForm(ConfirmForm):
    # One field for all ids: Django refuses a request with more than a thousand fields.
    ids = forms.CharField(widget=forms.HiddenInput, error_messages={"required": _("No dead letter is selected.")})

    def clean_ids(self) -> list[int]:
        return read_ids(self.cleaned_data["ids"])


def read_ids(text: str) -> list[int]:
    """The ids of `1,2,3`. Raises ValidationError."""
    values = [parse_id(part) for part in text.split(",")]
    ids = sorted({pk for pk in values if pk is not None})
    if None in values:
        raise forms.ValidationError(_("The selection of dead letters is not valid."))
    if len(ids) > MAX_SELECTED:
        raise forms.ValidationError(TOO_MANY)
    return ids
