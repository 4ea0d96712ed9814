"""The console's forms for subscriptions. They validate; `services` stores."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from webhookhub.auditlog.context import because
from webhookhub.console import format
from webhookhub.console.forms import ReasonField
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.egress.urls import MASK

from . import customers, headers, services
from .client_certificates import MAX_CERTIFICATE_LENGTH, MAX_KEY_LENGTH
from .models import Customer, Subscription
from .oauth2 import BASIC, MAX_LENGTHS, POST

RETRY_LIMIT_ERROR = _("The retry limit is a whole number from 1 to 1000, or empty.")
BASE_DELAY_ERROR = _("The base delay is a duration such as 00:00:30, from a millisecond to a day, or empty.")
RATE_LIMIT_ERROR = _("The rate limit is a whole number from 1 to 10000, or empty.")
UNREADABLE_HEADERS = _("headers that the current encryption keys do not open")
CHANGED_SINCE = _(
    "Nothing was stored: this subscription has been changed since you opened its form. "
    "Your input is below; {link} to see the stored values."
)


class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    # Whether the user may see secrets, which the URL's query may contain. Set by the admin.
    shows_secrets = True

    headers = forms.CharField(
        label=_("Headers"),
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": _("Name: value")}),
        help_text=_("Sent with each delivery, one per line. Stored encrypted and not shown again."),
    )
    remove_headers = forms.BooleanField(
        required=False, label=_("Remove the custom headers"), widget=UnfoldBooleanWidget
    )
    reason = ReasonField(
        label=_("Reason for this change"),
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("Kept in the audit log, with your name and the time. Optional."),
    )
    # The version of the subscription that the page has shown.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Subscription
        fields = sorted(services.SET_ON_CREATE - {services.HEADERS})
        widgets = {
            "callback_url": UnfoldAdminTextInputWidget(attrs={"inputmode": "url", "spellcheck": "false"}),
            "customer_key": UnfoldAdminTextInputWidget(attrs={"spellcheck": "false", "autocomplete": "off"}),
            "label_filter": UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false"}),
        }
        labels = {"callback_url": _("Callback URL")}
        error_messages = {
            "event_type": {"required": _("Enter the event type to subscribe to.")},
            "callback_url": {"required": _("Enter the callback URL to deliver to.")},
            "max_retry_limit": dict.fromkeys(("invalid", "min_value", "max_value"), RETRY_LIMIT_ERROR),
            "rate_limit": dict.fromkeys(("invalid", "min_value", "max_value"), RATE_LIMIT_ERROR),
            "base_delay": dict.fromkeys(("invalid", "overflow", "min_value", "max_value"), BASE_DELAY_ERROR),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["seen"] = services.version(self.instance)
            if not self.shows_secrets:
                self.initial["callback_url"] = self.instance.shown_url
        if "headers" in self.fields and self.instance.custom_headers:
            self.fields["headers"].help_text = _(
                "Now: %(names)s. Values are not shown; new headers replace all of them."
            ) % {"names": ", ".join(services.header_names(self.instance)) or UNREADABLE_HEADERS}

    def clean_callback_url(self) -> str:
        """The masked URL stands for the stored one."""
        url = str(self.cleaned_data["callback_url"])
        if self.shows_secrets or not self.instance.pk:
            return url
        if url == self.instance.shown_url:
            return str(self.instance.callback_url)
        if MASK in url:
            raise forms.ValidationError(_("Enter the whole URL: *** stands for values that you may not see."))
        return url

    def _get_validation_exclusions(self) -> set[str]:
        """With the other columns of the unique key, which the form does not have."""
        return super()._get_validation_exclusions() - {"customer_key", "deleted_at", "existing"}  # type: ignore[misc, no-any-return]

    def clean_customer_key(self) -> str:
        key = str(self.cleaned_data["customer_key"])
        customer = customers.find(key) if key else None
        if key and (customer is None or customer.disabled_at is not None):
            raise forms.ValidationError(_("There is no enabled customer with this key."))
        return key

    def clean_headers(self) -> dict[str, str]:
        try:
            lines = headers.parse(self.cleaned_data["headers"])
        except headers.UnacceptableHeaders as error:
            raise forms.ValidationError(str(error)) from None
        return dict(line.split(": ", 1) for line in lines)

    def clean(self) -> dict[str, Any] | None:
        values = self.values()
        # A form that is sent twice changes nothing the second time, and is no conflict.
        if self.instance.pk and values and self.cleaned_data.get("seen") != self.initial["seen"]:
            link = format.link(format.page_url(Subscription, self.instance.pk), _("reopen the form"))
            raise forms.ValidationError(format_html(str(CHANGED_SINCE), link=link))
        if not self.instance.pk or values.get("headers"):
            try:
                Subscription.objects.require_keys()
            except UnsuitableDatabase as error:
                raise forms.ValidationError(_("Nothing was stored: %(error)s.") % {"error": error}) from None
        if self.instance.pk and "headers" not in self.errors:
            try:
                services.check_headers_fit_host(self.instance, values)
                services.check_headers_fit_token(self.instance, values)
            except services.InvalidSubscription as error:
                self.add_error("headers", error.errors["headers"])
        if self.instance.pk and "callback_url" not in self.errors:
            try:
                services.check_credentials_fit_host(self.instance, values)
            except services.InvalidSubscription as error:
                self.add_error("callback_url", error.errors["callback_url"])
        return super().clean()

    def values(self) -> dict[str, Any]:
        """The valid fields that the user has changed, as `services` takes them."""
        changed = self.cleaned_data.keys() & set(self.changed_data)
        values = {
            name: self.cleaned_data[name] for name in changed & services.SET_ON_CREATE if name != services.HEADERS
        }
        if self.cleaned_data.get("headers"):
            values["headers"] = self.cleaned_data["headers"]
        elif self.cleaned_data.get("remove_headers"):
            values["headers"] = {}
        return values

    def save(self, commit: bool = True) -> Subscription:
        with because(self.cleaned_data["reason"]):
            if self.instance.pk:
                return services.change(self.instance, self.values(), seen=self.cleaned_data["seen"])
            return services.create(self.values())

    def save_m2m(self) -> None:
        """Called by the admin; there are no many-to-many fields."""


class CustomerForm(forms.ModelForm):  # type: ignore[type-arg]
    """Of a new customer."""

    class Meta:
        model = Customer
        fields = ("customer_key", "name")
        widgets = {"customer_key": UnfoldAdminTextInputWidget, "name": UnfoldAdminTextInputWidget}

    def save(self, commit: bool = True) -> Customer:
        return customers.put(self.cleaned_data["customer_key"], self.cleaned_data["name"]).customer

    def save_m2m(self) -> None:
        """Called by the admin; there are no many-to-many fields."""


class ReasonForm(forms.Form):
    reason = ReasonField()


class OptionalReasonForm(forms.Form):
    reason = ReasonField(required=False)


class PemField(forms.CharField):
    widget = UnfoldAdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false", "autocomplete": "off"})


class ClientCertificateForm(ReasonForm):
    """The private key is never sent back to the page."""

    certificate = PemField(
        label=_("Certificate"),
        max_length=MAX_CERTIFICATE_LENGTH,
        help_text=_("In PEM form, followed by the certificates of its issuers."),
        error_messages={"required": _("Enter the certificate.")},
    )
    private_key = PemField(
        label=_("Private key"),
        max_length=MAX_KEY_LENGTH,
        help_text=_("In PEM form, without a password. Stored encrypted and not shown again."),
        error_messages={"required": _("Enter the private key.")},
    )
    field_order = ("certificate", "private_key", "reason")


class OAuth2ClientForm(ReasonForm):
    """The client's secret is never sent back to the page."""

    token_url = forms.CharField(
        label=_("Token URL"),
        max_length=500,
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "url", "spellcheck": "false"}),
        help_text=_("An https URL. The same rules as for a callback URL hold."),
        error_messages={"required": _("Enter the token URL.")},
    )
    client_id = forms.CharField(
        label=_("Client ID"),
        widget=UnfoldAdminTextInputWidget(),
        max_length=MAX_LENGTHS["client_id"],
        error_messages={"required": _("Enter the client ID.")},
    )
    client_secret = forms.CharField(
        label=_("Client secret"),
        max_length=MAX_LENGTHS["client_secret"],
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text=_("Stored encrypted and not shown again."),
        error_messages={"required": _("Enter the client secret.")},
    )
    scope = forms.CharField(
        label=_("Scope"), max_length=MAX_LENGTHS["scope"], required=False, widget=UnfoldAdminTextInputWidget()
    )
    audience = forms.CharField(
        label=_("Audience"), max_length=MAX_LENGTHS["audience"], required=False, widget=UnfoldAdminTextInputWidget()
    )
    authentication = forms.ChoiceField(
        label=_("Client authentication"),
        widget=UnfoldAdminSelectWidget,
        choices=[(BASIC, _("in the header (basic)")), (POST, _("in the body (post)"))],
        help_text=_("How ID and secret are sent to the token server."),
    )
    field_order = ("token_url", "client_id", "client_secret", "scope", "audience", "authentication", "reason")
