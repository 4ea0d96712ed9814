"""The pages that ask for a reason and make a request: for selected deliveries, for a subscription, by filter."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from subscriptions.models import Subscription
from webhookhub.console import format
from webhookhub.console.forms import query_in_utc
from webhookhub.ids import new_token

from . import requests
from .forms import ConfirmForm, EndpointForm, FilterForm, read_ids
from .models import ABANDON, KINDS, SEND_AGAIN, SEND_NOW, DeliveryRequest, Saga
from .requests import InvalidRequest, RequestFilter

VIEW_PERMISSION = "sagas.view_saga"
TITLES = {
    SEND_NOW: gettext_noop("Send deliveries now"),
    ABANDON: gettext_noop("Abandon deliveries"),
    SEND_AGAIN: gettext_noop("Send deliveries again"),
}
BUTTONS = {
    SEND_NOW: gettext_noop("Send now"),
    ABANDON: gettext_noop("Abandon"),
    SEND_AGAIN: gettext_noop("Send again"),
}
EXPLANATIONS = {
    SEND_NOW: gettext_noop("Deliveries that wait for their next attempt are sent as soon as possible."),
    ABANDON: gettext_noop(
        "Deliveries that wait become dead letters and are not attempted again. One whose attempt is in progress "
        "completes if the attempt succeeds, and is abandoned if it fails. A dead letter can be requeued later."
    ),
    SEND_AGAIN: gettext_noop("Each delivery is sent again as a new delivery, with all its attempts."),
}


def request_page(request: HttpRequest, kind: str) -> HttpResponse:
    """GET asks for a reason, POST makes the request. The URL's query says which deliveries."""
    if kind not in KINDS:
        raise Http404
    if not request.user.has_perms([VIEW_PERMISSION, requests.PERMISSIONS[kind]]):
        raise PermissionDenied
    if "ids" in request.GET:
        return _selected(request, kind, request.GET["ids"])
    if kind == SEND_AGAIN:
        raise BadRequest("no delivery is selected")
    if not request.user.has_perm(requests.BULK_PERMISSION):
        raise PermissionDenied
    return _of_subscription(request, kind) if kind == SEND_NOW or "endpoint" in request.GET else _matching(request)


def _selected(request: HttpRequest, kind: str, text: str) -> HttpResponse:
    ids = read_ids(text)
    if ids is None:
        raise BadRequest("the selection is not valid")
    if len(ids) > 1 and not request.user.has_perm(requests.BULK_PERMISSION):
        raise PermissionDenied
    form = ConfirmForm(request.POST or None, initial={"token": new_token()})
    if form.is_valid():
        try:
            made = requests.request_deliveries(kind, ids, by=request.user, **form.cleaned_data)
        except InvalidRequest as error:
            _refuse(form, error)
        else:
            return _done(request, [result.request for result in made])
    sagas = list(Saga.objects.filter(pk__in=ids).select_related("subscription").order_by("pk"))
    context = {"form": form, "rows": sagas, "count": len(ids), "cancel_url": _back(ids)}
    return _page(request, kind, context)


def _back(ids: list[int]) -> str:
    return format.page_url(Saga, ids[0]) if len(ids) == 1 else reverse("admin:sagas_saga_changelist")


def _of_subscription(request: HttpRequest, kind: str) -> HttpResponse:
    """All deliveries of a subscription, or of all with its callback URL."""
    if not request.user.has_perm("subscriptions.view_subscription"):
        raise PermissionDenied
    number = request.GET.get("endpoint", "")
    subscription = get_object_or_404(Subscription, pk=number if number.isascii() and number.isdigit() else 0)
    whole = requests.of_subscription(subscription, whole_endpoint=True)
    others = len(list(whole.subscription_ids or ())) - 1
    form_class = EndpointForm if others else ConfirmForm
    form = form_class(request.POST or None, initial={"token": new_token()})
    chosen = requests.of_subscription(subscription, whole_endpoint=False)
    if form.is_valid():
        data = form.cleaned_data
        result = _make(request, kind, whole if data.get("whole_endpoint") else chosen, form)
        if result is not None:
            return _done(request, [result])
    context = {
        "form": form,
        "subscription": subscription,
        "others": others,
        "preview": requests.preview(chosen),
        "preview_of_all": requests.preview(whole) if others else None,
        "cancel_url": format.page_url(Subscription, subscription.pk),
    }
    return _page(request, kind, context)


def _matching(request: HttpRequest) -> HttpResponse:
    """Abandon all that match the conditions of the URL."""
    query = query_in_utc(FilterForm, request.GET) if request.method == "GET" else None
    if query is not None:
        return HttpResponseRedirect(f"{request.path}?{query}")
    filter_form = FilterForm(request.GET)
    context: dict[str, Any] = {"filter_form": filter_form, "cancel_url": reverse("admin:sagas_saga_changelist")}
    chosen = filter_form.request_filter() if filter_form.is_valid() else RequestFilter()
    if not chosen.is_empty:
        form = ConfirmForm(request.POST or None, initial={"token": new_token()})
        if form.is_valid():
            result = _make(request, ABANDON, chosen, form)
            if result is not None:
                return _done(request, [result])
        context |= {"form": form, "preview": requests.preview(chosen), "query": filter_form.query}
    return _page(request, ABANDON, context)


def _make(request: HttpRequest, kind: str, chosen: RequestFilter, form: forms.Form) -> DeliveryRequest | None:
    reason, token = form.cleaned_data["reason"], form.cleaned_data["token"]
    try:
        return requests.request_matching(kind, chosen, by=request.user, reason=reason, token=token).request
    except InvalidRequest as error:
        _refuse(form, error)
        return None


def _refuse(form: forms.Form, error: InvalidRequest) -> None:
    form.add_error(None, f"{capfirst(str(error))}.")


def _done(request: HttpRequest, made: list[DeliveryRequest]) -> HttpResponse:
    if len(made) > 1:
        text = _("Requested for {} deliveries. The hub applies the requests soon.")
        messages.success(request, text.format(len(made)))
        return HttpResponseRedirect(reverse("admin:sagas_deliveryrequest_changelist"))
    [only] = made
    link = format.link(format.page_url(DeliveryRequest, only.pk), _("progress"))
    messages.success(request, format_html(_("Requested. The hub applies it soon: {}"), link))
    if only.saga_id is not None:
        return HttpResponseRedirect(format.page_url(Saga, only.saga_id))
    return HttpResponseRedirect(format.page_url(DeliveryRequest, only.pk))


def _page(request: HttpRequest, kind: str, context: dict[str, Any]) -> HttpResponse:
    common = {
        **admin.site.each_context(request),
        "opts": Saga._meta,
        "kind": kind,
        "title": _(TITLES[kind]),
        "button": _(BUTTONS[kind]),
        "explanation": _(EXPLANATIONS[kind]),
        "max_counted": format.number(requests.MAX_COUNTED),
    }
    return TemplateResponse(request, "admin/sagas/saga/request.html", {**common, **context})
