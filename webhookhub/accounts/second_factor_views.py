"""The pages of the second factor: asked for after the password, and managed by its user."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from . import log_in, second_factor, sessions, webauthn
from .forms import AppForm, KeyForm, VerificationForm
from .models import RecoveryCode, SecondFactor
from .throttle import Attempt, TooManyAttempts

PENDING = "second_factor_pending"
PENDING_SECONDS = 600
SECRET = "totp_secret"  # noqa: S105
View = Callable[..., HttpResponse]


def begin_verification(request: HttpRequest, user: User, target: str) -> HttpResponse:
    """After the password: the user is not logged in before the second factor."""
    request.session.flush()
    request.session[PENDING] = {"user": user.pk, "at": time.time(), "next": target}
    request.session.set_expiry(PENDING_SECONDS)
    return HttpResponseRedirect(reverse("admin:verify"))


@never_cache
@sensitive_post_parameters()
def verify_page(request: HttpRequest) -> HttpResponse:
    """Asks for the second factor."""
    pending = request.session.get(PENDING, {})
    user = User.objects.filter(pk=pending.get("user"), is_active=True, is_staff=True).first()
    if user is None or time.time() - pending["at"] > PENDING_SECONDS:
        return redirect_to_login(reverse("admin:index"), reverse("admin:login"))
    form = VerificationForm(request.POST or None)
    retry_after = None
    if request.method == "POST":
        try:
            method = _verified(request, user)
        except TooManyAttempts as error:
            retry_after = int(error.seconds) + 1
            text = _("Too many attempts to log in. Try again in %(seconds)s seconds.") % {"seconds": retry_after}
            form.add_error(None, text)
        else:
            if method is not None:
                target = pending["next"]
                request.session.flush()
                return log_in.begin_session(request, user, method, HttpResponseRedirect(target))
            form.add_error(None, _("This code or key is not valid. Every code works once."))
    context = {
        "form": form,
        "title": _("Second factor"),
        "options": webauthn.log_in_options(request, user),
        "has_app": SecondFactor.objects.filter(totp_user_id=user.pk).exists(),
    }
    response = _page(request, "verify", context, status=429 if retry_after else 200)
    if retry_after:
        response["Retry-After"] = str(retry_after)
    return response


def _verified(request: HttpRequest, user: User) -> str | None:
    """With what the user has proved to be the right one. Raises TooManyAttempts."""
    name = user.get_username()
    attempt = Attempt(request, name, is_code=True)
    try:
        attempt.count()
    except TooManyAttempts:
        log_in.note_failure(request, name, user.pk, log_in.TOO_MANY)
        raise
    if response := request.POST.get("response"):
        method = SecondFactor.WEBAUTHN if webauthn.use_key(request, user, response) else None
    else:
        method = second_factor.use_code(user, request.POST.get("code", "")[:50])
    if method is None:
        log_in.note_failure(request, name, user.pk, log_in.WRONG_CODE)
    else:
        attempt.forgive()
    return method


def fresh(view: View) -> View:
    """Requires a session that has just begun: a browser that was left open must not change how its user logs in."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if sessions.is_fresh(request):
            return view(request, *args, **kwargs)
        logout(request)
        messages.info(request, _("Log in again to change your second factor."))
        return redirect_to_login(reverse("admin:second_factor"), reverse("admin:login"))

    return never_cache(wrapper)


@never_cache
def factors_page(request: HttpRequest) -> HttpResponse:
    user = _user(request)
    context = {
        "title": _("Second factor"),
        "factors": SecondFactor.objects.filter(user=user).order_by("pk"),
        "codes_left": RecoveryCode.objects.filter(user=user, used_at__isnull=True).count(),
        "required": second_factor.is_missing(request),
        "has_password": user.has_usable_password(),
    }
    return _page(request, "list", context)


@fresh
def app_page(request: HttpRequest) -> HttpResponse:
    """Adds an authenticator app. The secret is in the session until a code shows that the app has it."""
    user = _user(request)
    if request.method != "POST" or SECRET not in request.session:
        request.session[SECRET] = second_factor.new_secret()
    secret = request.session[SECRET]
    form = AppForm(request.POST or None)
    if form.is_valid():
        step = second_factor.matching_step(secret, form.cleaned_data["code"])
        if step is not None:
            del request.session[SECRET]
            return _added(request, SecondFactor.TOTP, second_factor.add_app(user, secret, step))
        form.add_error("code", _("This code is not valid. Check the clock of the device with the app."))
    context = {"title": _("Add an authenticator app"), "form": form, "secret": secret, "picture": _qr(user, secret)}
    return _page(request, "app", context)


@fresh
def key_page(request: HttpRequest) -> HttpResponse:
    """Adds a security key."""
    user = _user(request)
    form = KeyForm(request.POST or None)
    if form.is_valid():
        data = form.cleaned_data
        try:
            codes = webauthn.add_key(request, user, data["response"], data["name"])
        except webauthn.InvalidKey:
            form.add_error(None, _("The key was not added: the browser's response is not valid. Try again."))
        else:
            return _added(request, SecondFactor.WEBAUTHN, codes)
    options = webauthn.registration_options(request, user)
    return _page(request, "key", {"title": _("Add a security key"), "form": form, "options": options})


@fresh
def codes_view(request: HttpRequest) -> HttpResponse:
    user = _user(request)
    if request.method != "POST" or not second_factor.has_factor(user):
        return HttpResponseRedirect(reverse("admin:second_factor"))
    return _codes(request, second_factor.new_codes(user))


@fresh
def remove_view(request: HttpRequest, pk: int) -> HttpResponse:
    if request.method == "POST":
        user = _user(request)
        second_factor.remove(get_object_or_404(SecondFactor, pk=pk, user=user))
        if not second_factor.has_factor(user):
            request.session[sessions.METHOD] = log_in.PASSWORD
        messages.success(request, _("The second factor is removed."))
    return HttpResponseRedirect(reverse("admin:second_factor"))


def _added(request: HttpRequest, method: str, codes: list[str]) -> HttpResponse:
    if request.session.get(sessions.METHOD, log_in.PASSWORD) == log_in.PASSWORD:
        request.session[sessions.METHOD] = method
    messages.success(request, _("The second factor is added. The hub asks for it after your password."))
    return _codes(request, codes) if codes else HttpResponseRedirect(reverse("admin:second_factor"))


def _codes(request: HttpRequest, codes: list[str]) -> HttpResponse:
    """Shown in the response itself: they are stored as hashes only."""
    return _page(request, "codes", {"title": _("Recovery codes"), "codes": codes})


def _page(request: HttpRequest, name: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    context = {**admin.site.each_context(request), **context}
    return TemplateResponse(request, f"console/second_factor/{name}.html", context, status=status)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _qr(user: User, secret: str) -> str:
    """An image as a data URL, which the content security policy allows."""
    from urllib.parse import quote

    import segno

    label = quote(f"WebhookHub:{user.get_username()}")
    return segno.make(f"otpauth://totp/{label}?secret={secret}&issuer=WebhookHub", error="m").svg_data_uri(
        scale=5, border=4, light="white"
    )
