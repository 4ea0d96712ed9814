"""API keys in the console: created, shown once, revoked, never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog.admin import Audited
from webhookhub.console import format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.error_pages import require_post
from webhookhub.db.clock import UtcNow

from . import keys
from .forms import ApiKeyForm
from .models import ApiKey

MAY_ADD = "api.add_apikey"
MAY_REVOKE = "api.revoke_apikey"


@admin.register(ApiKey)
class ApiKeyAdmin(Audited, ReadOnlyAdmin):
    list_display = ("name", "state", "scopes", "source", "expires_at", "last_used_at", "created_by")
    fields = (
        "name",
        "key_id",
        "state",
        "scopes",
        "source",
        "networks",
        "events_per_second",
        "expires_at",
        "revoked_at",
        "last_used_at",
        "created_by",
        "created_at",
    )
    change_form_template = "admin/api/apikey/change_form.html"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(MAY_ADD)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Expiry is judged by the database's clock, as when the key is used.
        rows: QuerySet[Any] = super().get_queryset(request).annotate(read_at=UtcNow())
        return rows

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return ApiKeyForm if obj is None else super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(None, {"fields": ApiKeyForm.Meta.fields if obj is None else self.get_fields(request, obj)})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [] if obj is None else super().get_readonly_fields(request, obj)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(revoke_view)
        return [path("<int:pk>/revoke/", view, name="api_apikey_revoke"), *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        key: Any = context.get("original")
        open_key = key is not None and key.revoked_at is None
        context["may_revoke"] = open_key and request.user.has_perm(MAY_REVOKE)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> ApiKey:
        """Creates the key by the service, which records it in the audit log."""
        form.instance, request.new_api_key = keys.create(  # type: ignore[attr-defined]
            by=request.user.get_username(), **form.cleaned_data
        )
        form.save_m2m = lambda: None
        key: ApiKey = form.instance
        return key

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing to do: save_form() has saved the key."""

    def response_add(self, request: HttpRequest, obj: ApiKey, *args: Any, **kwargs: Any) -> HttpResponse:
        """Shows the key in the response itself: a message would store it in a cookie or in the session."""
        context: dict[str, Any] = {
            **admin.site.each_context(request),
            "title": _("New API key"),
            "opts": ApiKey._meta,
            "key": obj,
            "text": request.new_api_key,  # type: ignore[attr-defined]
            "address": format.page_url(ApiKey, obj.pk),
        }
        return TemplateResponse(request, "admin/api/apikey/secret.html", context)

    @admin.display(description=_("state"))
    def state(self, key: Any) -> str:
        return gettext(str(key.state(key.read_at)))


@require_post
def revoke_view(request: HttpRequest, pk: int) -> HttpResponse:
    if not request.user.has_perm(MAY_REVOKE) or not request.user.has_perm("api.view_apikey"):
        raise PermissionDenied
    key = get_object_or_404(ApiKey, pk=pk)
    if keys.revoke(key, by=request.user.get_username()):
        messages.success(request, gettext("%(key)s is revoked.") % {"key": key})
    else:
        messages.warning(request, gettext("%(key)s was revoked before.") % {"key": key})
    return HttpResponseRedirect(format.page_url(ApiKey, key.pk))
