"""Forms of the log-in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.forms import AuthenticationForm
from unfold.widgets import UnfoldAdminTextInputWidget

from . import log_in
from .models import NAME_LENGTH
from .throttle import TooManyAttempts

TOO_MANY = _("Too many attempts to log in. Try again in %(seconds)s seconds.")


class LogInForm(AuthenticationForm):  # type: ignore[misc]
    # Set if the attempt was refused without a look at the password.
    retry_after: int | None = None

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return self.cleaned_data  # type: ignore[no-any-return]
        try:
            self.user_cache = log_in.check_password(self.request, name, password)
        except TooManyAttempts as error:
            self.retry_after = int(error.seconds) + 1
            raise ValidationError(TOO_MANY, code="too_many", params={"seconds": self.retry_after}) from None
        if self.user_cache is None:
            raise self.get_invalid_login_error()
        return self.cleaned_data  # type: ignore[no-any-return]


def _code_widget(**attrs: str) -> Any:
    return UnfoldAdminTextInputWidget(attrs={"autocomplete": "one-time-code", "spellcheck": "false", **attrs})


class VerificationForm(forms.Form):
    code = forms.CharField(
        label=_("Code"),
        required=False,
        max_length=50,
        help_text=_("Six digits of your authenticator app, or a recovery code."),
        widget=_code_widget(autofocus=""),
    )


class AppForm(forms.Form):
    code = forms.CharField(
        label=_("Code"),
        max_length=10,
        help_text=_("Six digits that the app shows."),
        widget=_code_widget(inputmode="numeric"),
        error_messages={"required": _("Enter the six digits that the app shows.")},
    )

    def clean_code(self) -> str:
        return "".join(str(self.cleaned_data["code"]).split())


class KeyForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=NAME_LENGTH, initial=_("Security key"), widget=UnfoldAdminTextInputWidget()
    )
    response = forms.CharField(widget=forms.HiddenInput, max_length=20_000)
