"""The model field of a label filter, and its form field."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext_lazy as _

from . import filters
from .filters import InvalidFilter, LabelFilter


def parse_label_filter(value: Any) -> LabelFilter | None:
    """From JSON text, from a list of conditions, or as it is. Raises ValidationError, which names the condition."""
    if value is None or value == "" or isinstance(value, LabelFilter):
        return value or None
    try:
        return filters.read(value) if isinstance(value, str) else filters.parse(value)
    except InvalidFilter as error:
        raise ValidationError(_("The filter %(why)s."), code="invalid", params={"why": str(error)}) from None


class LabelFilterFormField(forms.CharField):
    def prepare_value(self, value: Any) -> Any:
        return str(value) if isinstance(value, LabelFilter) else value

    def to_python(self, value: Any) -> Any:
        return value if isinstance(value, LabelFilter) else parse_label_filter(super().to_python(value))

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != initial)
        except ValidationError:
            return True


class LabelFilterField(models.TextField):  # type: ignore[type-arg]
    """A LabelFilter, stored as JSON text; None: no filter."""

    empty_values = (None, "")
    # For type checkers.
    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: BaseDatabaseWrapper) -> LabelFilter | None:
        return None if value is None else filters.stored(value)

    def to_python(self, value: Any) -> Any:
        return parse_label_filter(value)

    def get_prep_value(self, value: Any) -> str | None:
        parsed = parse_label_filter(value)
        return None if parsed is None else str(parsed)

    def value_to_string(self, obj: models.Model) -> str:
        value = self.value_from_object(obj)
        return "" if value is None else str(value)

    def formfield(self, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().formfield(**{"form_class": LabelFilterFormField, **kwargs})
