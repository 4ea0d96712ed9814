"""Actions on a subscription besides editing: verify, send a test event, pause, resume, enable, replace the secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from webhookhub.auditlog.context import because
from webhookhub.conf import hub
from webhookhub.console import format
from webhookhub.console.error_pages import require_post
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.egress import error_codes

from . import credential_services, customers, health, sample_delivery, secrets, services, verification
from .credentials import InvalidCredentials, OAuth2Client
from .forms import ClientCertificateForm, OAuth2ClientForm, OptionalReasonForm, ReasonForm
from .models import Customer, Subscription

MAY_VERIFY = "subscriptions.verify_subscription"
MAY_ROTATE = "subscriptions.reveal_secret"
MAY_CHANGE_CREDENTIALS = "subscriptions.change_credentials"
MAY_CHANGE = "subscriptions.change_subscription"
MAY_DISABLE = "subscriptions.disable_customer"
View = Callable[..., HttpResponse]


def _sends(action: View) -> View:
    """A view that checks the permission, reads the optional reason and then sends something to the endpoint."""

    @require_post
    def view(request: HttpRequest, pk: int) -> HttpResponse:
        subscription = _allowed(request, pk, MAY_VERIFY)
        form = OptionalReasonForm(request.POST)
        if not form.is_valid():
            error = " ".join(map(str, form.errors["reason"]))
            messages.error(request, _("Nothing was sent. %(error)s") % {"error": error})
            return _to_subscription(subscription)
        with because(form.cleaned_data["reason"]):
            return action(request, subscription, form.cleaned_data["reason"])

    return view


@_sends
def verify(request: HttpRequest, subscription: Subscription, reason: str) -> HttpResponse:
    outcome = verification.verify(subscription)
    if outcome.verified:
        text = _("Verified: %(reason)s.")
    elif subscription.verified:
        text = _("The verification failed: %(reason)s. The earlier verification stays valid.")
    else:
        text = _("Not verified: %(reason)s.")
    level = messages.SUCCESS if outcome.verified else messages.ERROR
    messages.add_message(request, level, text % {"reason": verification.describe(outcome.result)})
    return _to_subscription(subscription)


@_sends
def send_test(request: HttpRequest, subscription: Subscription, reason: str) -> HttpResponse:
    result = sample_delivery.send_test(subscription)
    context = {
        "response": result.response,
        "error_text": error_codes.describe(result.response.error_code or ""),
        "duration": format.milliseconds(result.response.duration_ms),
        "message_id": result.message_id,
        "reason": reason,
        "snippet": format.block(result.snippet) if result.snippet else "",
    }
    return _page(request, "test", subscription, _("Test event"), **context)


def set_active(request: HttpRequest, pk: int, *, active: bool) -> HttpResponse:
    """Pause or resume. GET asks for the reason, POST stores. Safe to repeat."""
    subscription = _allowed(request, pk, MAY_CHANGE)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        title = _("Resume a subscription") if active else _("Pause a subscription")
        return _page(request, "pause", subscription, title, form=form, pausing=not active)
    with because(form.cleaned_data["reason"]):
        services.change(subscription, {"active": active})
    done = _("Resumed: it gets deliveries again.") if active else _("Paused: it gets no deliveries.")
    messages.success(request, done)
    return _to_subscription(subscription)


def enable(request: HttpRequest, pk: int) -> HttpResponse:
    """Enable a disabled endpoint. GET asks for the reason, POST stores. Safe to repeat."""
    subscription = _allowed(request, pk, MAY_CHANGE)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        others = Subscription.objects.existing().filter(endpoint=subscription.endpoint_id or 0).count() - 1
        context = {"form": form, "state": health.of_endpoint(subscription.endpoint_id), "others": others}
        return _page(request, "enable", subscription, _("Enable an endpoint"), **context)
    enabled = health.enable(subscription, reason=form.cleaned_data["reason"])
    messages.success(request, _("Enabled: it gets deliveries again.") if enabled else _("It was enabled already."))
    return _to_subscription(subscription)


def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """GET explains and asks for the reason, POST rotates.

    A rotation that ends a running overlap needs the page to have shown exactly that overlap. A page that is sent twice
    has shown another one, and asks again.
    """
    subscription = _allowed(request, pk, MAY_ROTATE)
    form, refusal = ReasonForm(request.POST or None), ""
    if form.is_valid():
        until = secrets.overlap_until(subscription)
        confirmed = until is not None and request.POST.get("ends") == until.isoformat()
        try:
            with because(form.cleaned_data["reason"]):
                return show_secret(request, subscription, secrets.rotate(subscription, force=confirmed))
        except secrets.OverlapRunning as error:
            refusal = _("Nothing was changed: %(error)s.") % {"error": error}
        except secrets.RotationRefused as error:
            messages.error(request, _("Nothing was changed: %(error)s.") % {"error": error})
            return _to_subscription(subscription)
    until = secrets.overlap_until(subscription)
    context = {
        "form": form,
        "refusal": refusal,
        "ends": until.isoformat() if until else "",
        "until": format.local_time(until),
        "overlap": format.duration(hub().secret_overlap),
    }
    return _page(request, "rotate", subscription, _("Replace a signing secret"), **context)


def switch_customer(request: HttpRequest, pk: int, *, enable: bool) -> HttpResponse:
    """Disable or enable a customer. GET asks for the reason, POST stores. Safe to repeat."""
    if not request.user.has_perms([MAY_DISABLE, "subscriptions.view_customer"]):
        raise PermissionDenied
    customer = get_object_or_404(Customer, pk=pk)
    address = format.page_url(Customer, pk)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        context = {
            **admin.site.each_context(request),
            "opts": Customer._meta,
            "title": _("Enable a customer") if enable else _("Disable a customer"),
            "customer": customer,
            "disabling": not enable,
            "address": address,
            "form": form,
        }
        return TemplateResponse(request, "admin/subscriptions/customer/switch.html", context)
    switch = customers.enable if enable else customers.disable
    switch(customer, reason=form.cleaned_data["reason"])
    done = _("Enabled: it gets deliveries again.") if enable else _("Disabled: it gets no deliveries.")
    messages.success(request, done)
    return HttpResponseRedirect(address)


CUSTOMER_VIEWS: dict[str, View] = {
    "disable": partial(switch_customer, enable=False),
    "enable": partial(switch_customer, enable=True),
}


def client_certificate(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows what is stored and asks for a new one, POST stores it."""
    subscription = _allowed(request, pk, MAY_CHANGE_CREDENTIALS)
    form = ClientCertificateForm(request.POST or None)
    if form.is_valid():
        values = form.cleaned_data
        with _reported(form), because(values["reason"]):
            credential_services.set_certificate(subscription, values["certificate"], values["private_key"])
            messages.success(request, _("Stored: the hub shows this certificate to the endpoint."))
            return _to_subscription(subscription)
    if form.is_bound:
        form.data = {**request.POST.dict(), "private_key": ""}  # not even back to its sender
    return _page(request, "client_certificate", subscription, _("Client certificate"), form=form)


def remove_client_certificate(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks for the reason, POST removes. Safe to repeat."""
    subscription = _allowed(request, pk, MAY_CHANGE_CREDENTIALS)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        return _page(request, "remove_credentials", subscription, _("Remove a client certificate"), form=form)
    with because(form.cleaned_data["reason"]):
        credential_services.remove_certificate(subscription)
    messages.success(request, _("Removed: the hub shows no certificate to the endpoint."))
    return _to_subscription(subscription)


def oauth2_client(request: HttpRequest, pk: int) -> HttpResponse:
    """GET shows what is stored and asks for a new one, POST stores it."""
    subscription = _allowed(request, pk, MAY_CHANGE_CREDENTIALS)
    form = OAuth2ClientForm(request.POST or None)
    if form.is_valid():
        values = form.cleaned_data
        with _reported(form), because(values["reason"]):
            client = OAuth2Client(**{name: values[name] for name in OAuth2Client._fields})
            credential_services.set_oauth2(subscription, client)
            messages.success(request, _("Stored: the hub gets tokens for the endpoint with this client."))
            return _to_subscription(subscription)
    return _page(request, "oauth2_client", subscription, _("OAuth2 client"), form=form)


def remove_oauth2_client(request: HttpRequest, pk: int) -> HttpResponse:
    """GET asks for the reason, POST removes. Safe to repeat."""
    subscription = _allowed(request, pk, MAY_CHANGE_CREDENTIALS)
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        return _page(request, "remove_credentials", subscription, _("Remove an OAuth2 client"), form=form)
    with because(form.cleaned_data["reason"]):
        credential_services.remove_oauth2(subscription)
    messages.success(request, _("Removed: the hub sends no token to the endpoint."))
    return _to_subscription(subscription)


@contextmanager
def _reported(form: ReasonForm) -> Iterator[None]:
    """Errors of the credentials become errors of the form."""
    try:
        yield
    except InvalidCredentials as error:
        for field, text in error.errors.items():
            form.add_error(field, text)
    except UnsuitableDatabase as error:
        form.add_error(None, _("Nothing was stored: %(error)s.") % {"error": error})


pause, resume = partial(set_active, active=False), partial(set_active, active=True)
VIEWS: dict[str, View] = {
    "verify": verify,
    "test": send_test,
    "rotate": rotate,
    "pause": pause,
    "resume": resume,
    "enable": enable,
    "client_certificate": client_certificate,
    "remove_client_certificate": remove_client_certificate,
    "oauth2_client": oauth2_client,
    "remove_oauth2_client": remove_oauth2_client,
}


def show_secret(request: HttpRequest, subscription: Subscription, secret: str) -> HttpResponse:
    """In the response itself: a message would store the secret in a cookie or the session."""
    until = format.local_time(subscription.previous_secret_until)
    return _page(request, "secret", subscription, _("Signing secret"), secret=secret, previous_until=until)


def _page(
    request: HttpRequest, template: str, subscription: Subscription, title: str, **context: Any
) -> TemplateResponse:
    shared = {
        **admin.site.each_context(request),
        "title": title,
        "opts": Subscription._meta,
        "subscription": subscription,
        "address": format.page_url(Subscription, subscription.pk),
    }
    return TemplateResponse(request, f"admin/subscriptions/subscription/{template}.html", {**shared, **context})


def _to_subscription(subscription: Subscription) -> HttpResponse:
    return HttpResponseRedirect(format.page_url(Subscription, subscription.pk))


def _allowed(request: HttpRequest, pk: int, permission: str) -> Subscription:
    if not request.user.has_perm(permission) or not request.user.has_perm("subscriptions.view_subscription"):
        raise PermissionDenied
    return get_object_or_404(Subscription, pk=pk)
