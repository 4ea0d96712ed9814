"""Fields whose column types differ between engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext_lazy as _

from . import vendors


class WordField(models.CharField):  # type: ignore[type-arg]
    """One word of a fixed list: an ENUM on servers, text with a check elsewhere."""

    def __init__(self, *args: Any, words: Sequence[str] = (), **kwargs: Any) -> None:
        self.words = tuple(words)
        kwargs["max_length"] = max((len(word) for word in self.words), default=1)
        kwargs["choices"] = [(word, word) for word in self.words]
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("max_length", None)
        kwargs.pop("choices", None)
        kwargs["words"] = list(self.words)
        return name, path, args, kwargs

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return vendors.enum_column(connection, self.words, self.max_length or 1)

    def db_check(self, connection: BaseDatabaseWrapper) -> str | None:
        return vendors.enum_check(connection, self.column or "", self.words)


class ExactTextField(models.CharField):  # type: ignore[type-arg]
    """Text compared byte by byte (`Order` and `order` differ), independent of the server's default collation."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        if vendors.is_server(connection):
            parameters["collation"] = vendors.TEXT_COLLATION
        return parameters


class JSONTextField(models.TextField):  # type: ignore[type-arg]
    """A JSON document as text.

    It is never parsed and serialized again, so every attempt signs and sends exactly the stored bytes.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return vendors.json_column(connection)


MAX_SECONDS = 7 * 24 * 3600
MAX_SECONDS_LIST = 50


def parse_seconds(value: Any) -> tuple[int, ...]:
    """Whole seconds from a list, or from text such as "5, 300, 1800". Raises ValidationError if they are invalid."""
    try:
        parts = value.split(",") if isinstance(value, str) else list(value)
        seconds = tuple(part if type(part) is int else _whole(part) for part in parts)
    except (TypeError, ValueError):
        seconds = ()
    if not 1 <= len(seconds) <= MAX_SECONDS_LIST or not all(1 <= number <= MAX_SECONDS for number in seconds):
        raise ValidationError(
            _("Enter 1 to %(count)s whole numbers of seconds from 1 to %(seconds)s, separated by commas."),
            code="invalid",
            params={"count": MAX_SECONDS_LIST, "seconds": MAX_SECONDS},
        )
    return seconds


def _whole(text: Any) -> int:
    """`int` alone would also read 1_000, digits of other scripts, and numbers with a fraction."""
    if not isinstance(text, str) or not text.strip().isascii() or not text.strip().isdigit():
        raise ValueError(text)
    return int(text.strip()[:12])


def format_seconds(seconds: Sequence[int]) -> str:
    return ", ".join(map(str, seconds))


class SecondsListFormField(forms.CharField):
    def prepare_value(self, value: Any) -> Any:
        return format_seconds(value) if isinstance(value, tuple) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return value
        text = super().to_python(value)
        return parse_seconds(text) if text else None


class SecondsListField(ExactTextField):
    """A short list of whole seconds: a tuple of int, stored as text such as `5,300,1800`. It is never empty."""

    empty_values = (None, "")
    # For type checkers.
    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["max_length"] = MAX_SECONDS_LIST * (len(str(MAX_SECONDS)) + 1)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("max_length", None)
        return name, path, args, kwargs

    def from_db_value(self, value: str | None, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        return None if value is None else tuple(map(int, value.split(",")))

    def to_python(self, value: Any) -> Any:
        return None if value is None or value == "" else parse_seconds(value)

    def get_prep_value(self, value: Any) -> str | None:
        seconds = self.to_python(value)
        return None if seconds is None else ",".join(map(str, seconds))

    def formfield(self, **kwargs: Any) -> Any:  # type: ignore[override]
        # Without the limit of the stored text, which has no spaces.
        return super().formfield(**{"form_class": SecondsListFormField, **kwargs, "max_length": None})
