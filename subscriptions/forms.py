"""The form in which a subscription is edited; what is wrong is said in words that name the field."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from webhookhub import crypto
from webhookhub.console import format
from webhookhub.console.forms import ReasonField
from webhookhub.db.errors import UnfitDatabase
from webhookhub.egress.urls import MASK, masked

from . import headers
from .models import Subscription
from .version import fingerprint

LIMIT = _("The retry limit is a whole number from 1 to 1000, or empty.")
EVENT_TYPE = _("An event type has 1 to 100 letters, digits, dots, dashes and underscores.")
DELAY = _("The base delay is a duration such as 00:00:30, from a millisecond to a day, or empty.")
STALE = _(
    "Nothing was stored: this subscription has been changed since you opened its form. "
    "Below is what you sent; {link} to see what is stored now."
)
UNKNOWN = _(
    "Nothing was stored: it cannot be told whether this subscription has been changed since you opened its form. "
    "Below is what you sent; {link} to see what is stored now."
)
# Fields that are no columns: the two about headers are one column, which has another name.
ABOUT_HEADERS = {"headers", "remove_headers"}
ABOUT_THE_FORM = {"reason", "seen"}


class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    # Of the address too: its query may hold a password. Whoever may change a subscription need not see its secrets.
    shows_all = True

    headers = forms.CharField(
        label=_("Headers"),
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": _("Name: value")}),
        help_text=_("Sent with each delivery, one a line. Stored encrypted and not shown again."),
    )
    remove_headers = forms.BooleanField(
        required=False, label=_("Remove the custom headers"), widget=UnfoldBooleanWidget
    )

    reason = ReasonField(
        label=_("Reason for this change"),
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("Kept in the audit log, with your name and the time. May be empty."),
    )

    # What the page has shown of the subscription that it is to change.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Subscription
        fields = (
            "event_type",
            "callback_url",
            "active",
            "description",
            "signing_scheme",
            "max_retry_limit",
            "base_delay",
        )
        widgets = {
            "callback_url": UnfoldAdminTextInputWidget(attrs={"inputmode": "url", "spellcheck": "false"}),
        }
        labels = {"callback_url": _("Callback URL")}
        error_messages = {
            "event_type": {"required": _("Give the event type to subscribe to."), "invalid": EVENT_TYPE},
            "callback_url": {"required": _("Give the callback URL to deliver to.")},
            "max_retry_limit": {"invalid": LIMIT, "min_value": LIMIT, "max_value": LIMIT},
            "base_delay": {"invalid": DELAY, "overflow": DELAY, "min_value": DELAY, "max_value": DELAY},
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen"] = fingerprint(self.instance)
        if self.instance.pk and not self.shows_all:
            self.initial["callback_url"] = self.instance.shown_url
        if "headers" in self.fields and self.instance.custom_headers:
            now = _names_of(self.instance.custom_headers)
            self.fields["headers"].help_text = _(
                "Now: %(names)s. Values are not shown; what is given here replaces all."
            ) % {"names": now}

    def clean_callback_url(self) -> str:
        """As it was shown, it stands for the one that is stored."""
        given = str(self.cleaned_data["callback_url"])
        stored = str(self.instance.callback_url)
        if self.shows_all or not self.instance.pk:
            return given
        if given == masked(stored):
            return stored
        if MASK in given:
            raise forms.ValidationError(_("Give the whole address: *** stands for what is not shown to you."))
        return given

    def clean_headers(self) -> str:
        try:
            return "\n".join(headers.parse(self.cleaned_data["headers"]))
        except headers.UnacceptableHeaders as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any] | None:
        self._require_what_was_shown()
        if self.instance._state.adding or self.cleaned_data.get("headers"):
            try:
                Subscription.objects.require_keys()
            except UnfitDatabase as error:
                raise forms.ValidationError(_("Nothing was stored: %(error)s.") % {"error": error}) from None
        self._keep_headers_from_others()
        return super().clean()

    def _require_what_was_shown(self) -> None:
        """A form that was opened a while ago would undo what others have changed since.

        What was sent with it stays on the page, and so does what it has seen: sent again, it is refused again.
        """
        if self.instance._state.adding or not self.changed_columns():
            return  # a form that is sent twice finds everything as it wants it
        seen = self.cleaned_data.get("seen")
        if seen != self.initial["seen"]:
            link = format.link(format.page(Subscription, self.instance.pk), _("open the form anew"))
            raise forms.ValidationError(format_html(str(STALE if seen else UNKNOWN), link=link))

    def _keep_headers_from_others(self) -> None:
        given = self.cleaned_data.get("headers") or self.cleaned_data.get("remove_headers")
        address = self.cleaned_data.get("callback_url")
        if given or not address or not self.instance.custom_headers or "headers" in self.errors:
            return
        if headers.belong_elsewhere(self.initial.get("callback_url") or address, address):
            self.add_error(
                "headers", _("The stored headers were meant for the old host: give them anew, or have them removed.")
            )

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data.get("headers"):
            self.instance.custom_headers = crypto.encrypt(self.cleaned_data["headers"])
        elif self.cleaned_data.get("remove_headers"):
            self.instance.custom_headers = ""
        return super().save(commit)

    def changed_columns(self) -> list[str]:
        """The columns that the form would change in what is stored."""
        changed = set(self.changed_data) - ABOUT_THE_FORM
        columns = changed - ABOUT_HEADERS
        return sorted(columns | ({"custom_headers"} if columns != changed else set()))


class ReasonForm(forms.Form):
    reason = ReasonField()


class OptionalReasonForm(forms.Form):
    """For what changes nothing for others."""

    reason = ReasonField(required=False)


def _names_of(stored: str) -> str:
    try:
        return ", ".join(headers.names(crypto.decrypt(stored)))
    except crypto.Undecipherable:
        return gettext("some that the encryption keys in force do not open")
