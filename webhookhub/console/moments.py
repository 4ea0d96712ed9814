"""Columns of moments, shown so that a script can put them into the viewer's time zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import DateTimeField, Model

from . import format


def with_moments(model: type[Model], names: Sequence[Any]) -> list[Any]:
    """What an admin displays, with each column of moments replaced by what shows it."""
    return [_shown(model, name) if isinstance(name, str) else name for name in names]


def _shown(model: type[Model], name: str) -> str | Callable[[Any], str]:
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return name
    if not isinstance(field, DateTimeField):
        return name

    def show(row: Any) -> str:
        return format.moment(getattr(row, name))

    show.__name__ = name
    show.short_description = field.verbose_name  # type: ignore[attr-defined]
    return show
