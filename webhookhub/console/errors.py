"""The pages for what cannot be answered: in the console's look, in plain words, and with a way on.

The API has problem documents for the same.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

TEMPLATE = "console/trouble.html"
RETRY_SECONDS = 5
INSIDE, OUTSIDE = "admin/base_site.html", "unfold/layouts/unauthenticated.html"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, DisallowedHost):
        sentences = [
            _("The hub is not served under this name. Whoever runs it can add the name to WEBHOOKHUB_ALLOWED_HOSTS.")
        ]
    else:
        # In our own words; what others say of a request may repeat it.
        reason = str(exception) if isinstance(exception, BadRequest) else ""
        sentences = [
            *([reason] if reason else []),
            _("Nothing was done. Go back to where you came from and try again."),
            _("If you typed or changed the address by hand, look at it once more."),
        ]
    # Our own come from a view, and so from somebody who is known.
    request = request if isinstance(exception, BadRequest) else _nobody(request)
    return _page(request, 400, _("This request cannot be read"), sentences)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    user = getattr(request, "user", None)
    name = user.get_username() if user is not None else ""
    sentences = [
        _("Nothing was done: your user %(name)s has no permission for it.") % {"name": name}
        if name
        else _("Nothing was done: you are not logged in."),
        _("Ask a colleague who has it, or whoever manages the users to put you into a group that has."),
    ]
    return _page(request, 403, _("You may not do this"), sentences)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    sentences = [
        _("No page has this address: it may be mistyped, or what it led to was never there."),
        _("Search for what you look for, by an id, a host or an error code."),
    ]
    return _page(request, 404, _("There is nothing here"), sentences)


def server_error(request: HttpRequest) -> HttpResponse:
    sentences = [
        _("It is not your doing. What you asked for may have been done or not: look before you do it again."),
        _("Tell whoever runs the hub when it happened: %(time)s. The log has the rest.")
        % {"time": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"},
    ]
    return _page(_nobody(request), 500, _("Something went wrong in the hub"), sentences)


def unavailable(request: HttpRequest, why: str) -> HttpResponse:
    """Something has to be put right by whoever runs the hub before this can be answered; `why` says what."""
    sentences = [
        why,
        _("It is not your doing, and nothing was done. Tell whoever runs the hub what is written here."),
    ]
    answer = _page(request, 503, _("This does not work at the moment"), sentences)
    answer["Retry-After"] = str(RETRY_SECONDS)
    return answer


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that was not sent from a page of this session."""
    sentences = [
        _("Nothing was done. It was opened before you logged in or out, or your browser keeps no cookies."),
        _("Go back, load that page again, and repeat what you did."),
    ]
    return _page(request, 403, _("This page has become too old"), sentences)


def posted(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For a view that a button asks for: whoever comes in another way, as from the login, is told so."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        sentences = [
            _("Nothing was done: you came here without pressing the button, perhaps by way of the login."),
            _("Go back to the page that has it, and press it once more."),
        ]
        refusal = _page(request, 405, _("This is done with a button"), sentences)
        refusal["Allow"] = "POST"
        return refusal

    return answer


def _nobody(request: HttpRequest) -> HttpRequest:
    """The same request from nobody: that which knows who asks may be what has failed, or was not asked yet."""
    bare = copy(request)
    bare.user = AnonymousUser()
    return bare


def _page(request: HttpRequest, status: int, title: str, sentences: list[str]) -> HttpResponse:
    if not hasattr(request, "user"):
        request = _nobody(request)
    inside = admin.site.has_permission(request)
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": title,
        "sentences": sentences,
        "inside": inside,
        "layout": INSIDE if inside else OUTSIDE,
    }
    answer = HttpResponse(render_to_string(TEMPLATE, context, request), status=status)
    answer["Cache-Control"] = "no-store"
    return answer
