"""The console's form for event types. It validates; `catalogue` stores."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from webhookhub.auditlog.context import because
from webhookhub.console.forms import ReasonField

from . import catalogue, payloads
from .catalogue import Declaration, InvalidEventType
from .errors import InvalidEvent
from .models import EventType

CHANGED_SINCE = _("Nothing was stored: this event type has been changed since you opened its form. Reload the page.")


class JSONField(forms.CharField):
    """A JSON text; its value is the document, None if it is empty."""

    def __init__(self, rows: int, **options: Any) -> None:
        widget = UnfoldAdminTextareaWidget(attrs={"rows": rows, "spellcheck": "false"})
        super().__init__(required=False, widget=widget, **options)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        try:
            return payloads.parse(text) if text else None
        except InvalidEvent as error:
            raise forms.ValidationError(_("The text %(why)s.") % {"why": error.why}) from None

    def validate(self, value: Any) -> None:
        """Any document is valid here."""

    def run_validators(self, value: Any) -> None:
        """Those of a text do not apply."""


class PointersField(forms.CharField):
    """Lines such as `region: /order/region`; its value maps labels to pointers."""

    def __init__(self, **options: Any) -> None:
        attributes = {"rows": 3, "spellcheck": "false", "placeholder": "region: /order/region"}
        super().__init__(required=False, widget=UnfoldAdminTextareaWidget(attrs=attributes), **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{label}: {pointer}" for label, pointer in value.items())
        return value

    def to_python(self, value: Any) -> Any:
        pointers: dict[str, str] = {}
        for line in (super().to_python(value) or "").splitlines():
            label, colon, pointer = (part.strip() for part in line.partition(":"))
            if not line.strip():
                continue
            if not colon or label in pointers:
                raise forms.ValidationError(_("Enter one label per line, each once, such as region: /order/region."))
            pointers[label] = pointer
        return pointers

    def validate(self, value: Any) -> None:
        """The catalogue checks names and pointers."""

    def run_validators(self, value: Any) -> None:
        """Those of a text do not apply."""


class EventTypeForm(forms.ModelForm):  # type: ignore[type-arg]
    description = forms.CharField(
        label=_("Description"), required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 4})
    )
    sample = JSONField(6, label=_("Sample payload"), help_text=_("JSON. It must satisfy the schema."))
    json_schema = JSONField(
        12,
        label=_("JSON Schema"),
        help_text=_("Of the payload, in the version 2020-12, without references to other documents."),
    )
    label_pointers = PointersField(
        label=_("Labels from the payload"),
        help_text=_("One per line: the label's name and a JSON pointer. Subscriptions filter by labels."),
    )
    deprecated = forms.BooleanField(label=_("Deprecated"), required=False, widget=UnfoldBooleanWidget)
    reason = ReasonField(
        label=_("Reason for this change"),
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("Kept in the audit log, with your name and the time. Optional."),
    )
    # When the declaration that the page has shown was stored.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = EventType
        fields = ("name", "group", "strict", "deprecation_note")
        widgets = {"deprecation_note": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            stored = Declaration.of(self.instance)
            self.initial = {
                **self.initial,
                "label_pointers": stored.label_pointers,
                "deprecated": stored.deprecated,
                "description": stored.description,
                "sample": self.instance.sample,
                "json_schema": self.instance.json_schema,
                "seen": self.instance.updated_at.isoformat(),
            }

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.instance.pk and self.cleaned_data.get("seen") != self.initial["seen"]:
            raise forms.ValidationError(CHANGED_SINCE)
        if not self.errors:
            try:
                catalogue.check(self._name, self.declaration())
            except InvalidEventType as error:
                for field, why in error.errors.items():
                    self.add_error(field if field in self.fields else None, f"{capfirst(why)}.")
        return cleaned

    @property
    def _name(self) -> str:
        return str(self.instance.name if self.instance.pk else self.cleaned_data["name"])

    def declaration(self) -> Declaration:
        return Declaration(**{name: self.cleaned_data[name] for name in catalogue.FIELDS})

    def save(self, commit: bool = True) -> EventType:
        with because(self.cleaned_data["reason"]):
            return catalogue.declare(self._name, self.declaration()).event_type

    def save_m2m(self) -> None:
        """Called by the admin; there are no many-to-many fields."""
