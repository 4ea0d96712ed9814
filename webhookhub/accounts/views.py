"""The log-in page, and the page behind the link of `create_staff --link`, where a new user sets the password."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.views import LoginView, PasswordResetConfirmView
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

from webhookhub.auditlog.actions import CONSOLE
from webhookhub.auditlog.context import Actor, acting_as

from . import log_in
from .forms import LogInForm


class LogIn(LoginView):
    form_class = LogInForm
    template_name = "admin/login.html"

    def form_valid(self, form: Any) -> HttpResponse:
        response = HttpResponseRedirect(self.get_success_url())
        return log_in.begin_session(self.request, form.get_user(), log_in.PASSWORD, response)

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
        if form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


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
