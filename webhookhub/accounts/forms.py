"""Forms of the log-in."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.forms import AuthenticationForm

from . import log_in
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
