"""The forms of the pages that request something for deliveries."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from webhookhub.console import format
from webhookhub.console.forms import LocalDateTimeField, ReasonField
from webhookhub.search_terms import MAX_ID, parse_id

from .models import TOKEN_LENGTH
from .requests import MAX_SELECTED, RequestFilter
from .transitions import OPEN


class ConfirmForm(forms.Form):
    reason = ReasonField(help_text=_("Saved with the request and in the audit log, with your name and the time."))
    # Submitting the page twice makes one request.
    token = forms.CharField(widget=forms.HiddenInput, max_length=TOKEN_LENGTH)


class EndpointForm(ConfirmForm):
    whole_endpoint = forms.BooleanField(
        label=_("Include the other subscriptions with the same callback URL"),
        required=False,
        widget=UnfoldBooleanWidget(),
    )


class FilterForm(forms.Form):
    """The conditions of the URL."""

    status = forms.ChoiceField(
        label=_("Status"),
        required=False,
        choices=lambda: [("", _("Any")), *((status, format.status_label(status)) for status in OPEN)],
        widget=UnfoldAdminSelectWidget,
    )
    event_type = forms.RegexField(
        r"\A[A-Za-z0-9_.-]{1,100}\Z",
        label=_("Event type"),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off"}),
        error_messages={"invalid": _("An event type has letters, digits, dots, dashes and underscores.")},
    )
    subscription = forms.IntegerField(
        label=_("Subscription number"),
        required=False,
        min_value=1,
        max_value=MAX_ID,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"}),
    )
    customer = forms.CharField(
        label=_("Customer"),
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    since = LocalDateTimeField(_("Created since"), required=False)
    until = LocalDateTimeField(_("Created until"), required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["until"] < data["since"]:
            self.add_error("until", _("This time is before “Created since”."))
        return data

    @property
    def query(self) -> str:
        """The conditions that are not empty, as a URL's query."""
        return urlencode({name: self.data[name] for name in self.fields if self.data.get(name, "").strip()})

    def request_filter(self) -> RequestFilter:
        data = self.cleaned_data
        return RequestFilter(
            subscription_ids={data["subscription"]} if data["subscription"] else None,
            status=data["status"] or None,
            event_type=data["event_type"] or None,
            customer=data["customer"] or None,
            since=data["since"],
            until=data["until"],
        )


def read_ids(text: str) -> list[int] | None:
    """The ids of `1,2,3`; None if the text is not a list of at most MAX_SELECTED ids."""
    values = [parse_id(part) for part in text.split(",")]
    ids = sorted({pk for pk in values if pk is not None})
    return None if None in values or len(ids) > MAX_SELECTED else ids
