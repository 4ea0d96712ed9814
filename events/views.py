"""The catalogue of event types: undeclared types in the console, and the public page for receivers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webhookhub.conf import hub

from . import catalogue, openapi
from .models import EventType

PUBLIC_SECONDS = 60


@never_cache
def undeclared_page(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perms(["events.view_event", "events.view_eventtype"]):
        raise PermissionDenied
    seen, more = catalogue.undeclared()
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": _("Undeclared event types"),
        "opts": EventType._meta,
        "seen": seen,
        "more": more,
        "limit": catalogue.MAX_SEEN,
        "may_declare": request.user.has_perm("events.add_eventtype"),
    }
    return TemplateResponse(request, "admin/events/eventtype/undeclared.html", context)


@require_safe
def public_page(request: HttpRequest) -> HttpResponse:
    """For receivers, without a log-in, if the setting allows it."""
    rows = [_shown(row) for row in _public_rows()]
    groups = [(name, list(items)) for name, items in groupby(rows, key=lambda row: row["group"])]
    response = TemplateResponse(request, "event_types.html", {"groups": groups})
    response["Cache-Control"] = f"public, max-age={PUBLIC_SECONDS}"
    # The text depends on the language of the browser or of its cookie.
    response["Vary"] = "Accept-Language, Cookie"
    return response


@require_safe
def public_document(request: HttpRequest) -> HttpResponse:
    response = JsonResponse(openapi.export(_public_rows()), json_dumps_params={"ensure_ascii": False, "indent": 2})
    response["Cache-Control"] = f"public, max-age={PUBLIC_SECONDS}"
    return response


def _public_rows() -> Any:
    if not hub().public_event_types:
        raise Http404
    return EventType.objects.order_by("group", "name")


def _shown(row: EventType) -> dict[str, Any]:
    declared = catalogue.Declaration.of(row)
    return {
        "name": row.name,
        "group": row.group,
        "description": row.description,
        "sample": row.sample,
        "json_schema": row.json_schema,
        "labels": [*declared.label_pointers],
        "deprecated": declared.deprecated,
        "deprecation_note": row.deprecation_note,
    }
