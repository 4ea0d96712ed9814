"""Workflow runs in the console: the list, the page of each run, operators' actions, and the definitions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from webhookhub.console.base import ReadOnlyAdmin

from . import views
from .models import Instance


@admin.register(Instance)
class InstanceAdmin(ReadOnlyAdmin):
    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        urls = [
            path("definitions/", wrap(self.definitions_view), name="workflows_instance_definitions"),
            path("definitions/<str:name>/", wrap(self.definition_view), name="workflows_instance_definition"),
            path("<int:pk>/act/<str:name>/", wrap(views.action_view), name="workflows_instance_act"),
            *super().get_urls(),
        ]
        for each in urls:
            each.callback = views.explain_invalid_definitions(each.callback)
        return urls

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._require_view(request)
        return self._page(request, "list", views.list_page(request))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._require_view(request)
        instance = self.get_object(request, object_id)
        if instance is None:
            redirect: Any = self._get_obj_does_not_exist_redirect  # type: ignore[attr-defined]
            response: HttpResponse = redirect(request, self.opts, object_id)
            return response
        return self._page(request, "page", views.run_page(request, instance))

    def definitions_view(self, request: HttpRequest) -> HttpResponse:
        self._require_view(request)
        return self._page(request, "definitions", views.definitions_page())

    def definition_view(self, request: HttpRequest, name: str) -> HttpResponse:
        self._require_view(request)
        return self._page(request, "definition", views.definition_page(name))

    def _require_view(self, request: HttpRequest) -> None:
        # These pages change nothing: actions have URLs of their own.
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/workflows/instance/{name}.html", whole)
