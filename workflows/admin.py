"""Workflows in the console: the list, the page of each run, its operators' actions, and the definitions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from webhookhub.console.base import ReadOnlyAdmin

from . import action_views, errors, lists, views
from .models import Instance


@admin.register(Instance)
class InstanceAdmin(ReadOnlyAdmin):
    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        urls = [
            path("definitions/", wrap(self.definitions_view), name="workflows_instance_definitions"),
            path("definitions/<str:name>/", wrap(self.definition_view), name="workflows_instance_definition"),
            path("<int:number_>/act/<str:name>/", wrap(action_views.view), name="workflows_instance_act"),
            *super().get_urls(),
        ]
        for each in urls:
            each.callback = errors.explained(each.callback)
        return urls

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._require_view(request)
        found = lists.listed(request)
        context = {
            "title": _("Workflows"),
            "listed": found,
            "rows": [views.row(each, found.now) for each in found.rows],
        }
        return self._page(request, "list", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._require_view(request)
        instance = self.get_object(request, object_id)
        if instance is None:
            redirect: Any = self._get_obj_does_not_exist_redirect  # type: ignore[attr-defined]
            answer: HttpResponse = redirect(request, self.opts, object_id)
            return answer
        return self._page(request, "page", views.instance_page(request, instance))

    def definitions_view(self, request: HttpRequest) -> HttpResponse:
        self._require_view(request)
        return self._page(request, "definitions", views.definitions_page())

    def definition_view(self, request: HttpRequest, name: str) -> HttpResponse:
        self._require_view(request)
        context = views.definition_page(name)
        if context is None:
            raise Http404
        return self._page(request, "definition", context)

    def _require_view(self, request: HttpRequest) -> None:
        # Nothing here is changed by its own page: what is done to a workflow has an address of its own.
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/workflows/instance/{name}.html", whole)
