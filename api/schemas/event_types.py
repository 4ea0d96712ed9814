from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.pagination import PageRequest
from events.catalogue import MAX_SEEN, TEXT_LENGTHS

from .common import Body

Description = Annotated[str, Field(max_length=TEXT_LENGTHS["description"])]
Group = Annotated[str, Field(max_length=TEXT_LENGTHS["group"])]
Note = Annotated[str, Field(max_length=TEXT_LENGTHS["deprecation_note"], description="What to use instead.")]
Schema = Annotated[dict[str, Any] | bool, Field(description="JSON Schema 2020-12 of the payload, without remote $ref.")]
LabelPointers = Annotated[
    dict[str, str],
    Field(
        description="Labels that are taken from the payload: label name → JSON pointer.",
        examples=[{"region": "/order/region"}],
    ),
]


class EventTypeIn(Body):
    """The whole declaration: a field that is left out gets its default."""

    description: Description = ""
    group: Group = ""
    sample: Any = Field(None, description="A payload. It must satisfy the schema.")
    json_schema: Schema | None = None
    label_pointers: LabelPointers = {}
    strict: bool = Field(False, description="Refuse events whose payload breaks the schema (422).")
    deprecated: bool = False
    deprecation_note: Note = ""


class EventTypeOut(BaseModel):
    name: str
    description: str
    group: str
    sample: Any
    json_schema: dict[str, Any] | bool | None
    label_pointers: dict[str, str]
    strict: bool
    deprecated: bool
    deprecated_at: datetime | None
    deprecation_note: str
    created_at: datetime
    updated_at: datetime


class EventTypeFilters(PageRequest):
    group: Group | None = None


class EventTypes(BaseModel):
    items: list[EventTypeOut]
    next: str | None


class Deleted(BaseModel):
    deleted: bool = Field(description="False if there was none.")


class SeenType(BaseModel):
    name: str
    last_at: datetime | None = Field(description="When the newest event of this type was stored.")


class SeenTypes(BaseModel):
    items: list[SeenType]
    more: bool = Field(description=f"Only the first {MAX_SEEN} types of stored events were examined.")


# For the documentation only: events.openapi reads it.
class OpenAPIDocument(BaseModel):
    openapi: str = Field(description="3.1 and a patch number.", examples=["3.1.0"])
    webhooks: dict[str, dict[str, Any]] = Field(description="By event type.")


class ImportedTypes(BaseModel):
    created: list[str]
    existing: list[str] = Field(description="Changed or as before.")
