"""Fields whose column types differ between engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

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
