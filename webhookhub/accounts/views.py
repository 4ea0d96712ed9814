"""The page behind the link of `create_staff --link`, where a new user sets the password."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog.actions import CONSOLE
from webhookhub.auditlog.context import Actor, acting_as


class Welcome(PasswordResetConfirmView):
    template_name = "console/welcome.html"
    success_url = reverse_lazy("admin:login")
    title = _("Set your password")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**admin.site.each_context(self.request), **super().get_context_data(**kwargs)}

    def form_valid(self, form: Any) -> HttpResponse:
        actor = Actor(f"{form.user.get_username()} (link)", CONSOLE)
        with acting_as(lambda: actor):
            return super().form_valid(form)
