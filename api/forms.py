"""The form for a new API key."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
)

from webhookhub.console.forms import LocalDateTimeField

from . import keys
from .models import ApiKey
from .scopes import SCOPES

# Fields that keys.check calls by another name.
FIELDS = {"scope": "scopes"}


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=[
            (scope, format_lazy("{scope}: {meaning}", scope=scope, meaning=_(meaning)))
            for scope, meaning in SCOPES.items()
        ],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        error_messages={"required": _("Choose at least one scope.")},
    )
    expires_at = LocalDateTimeField(_("Expires at"), required=False, help_text=_("Empty: the key does not expire."))

    class Meta:
        model = ApiKey
        fields = ("name", "source", "scopes", "networks", "expires_at", "events_per_second")
        widgets = {
            "name": UnfoldAdminTextInputWidget,
            "source": UnfoldAdminTextInputWidget,
            "networks": UnfoldAdminTextInputWidget,
            "events_per_second": UnfoldAdminIntegerFieldWidget,
        }

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                keys.check(**data)
            except keys.InvalidKey as error:
                name = FIELDS.get(error.field, error.field)
                values = {"field": self.fields[name].label, "why": error.why}
                self.add_error(name, _("%(field)s %(why)s.") % values)
        return data
