"""/healthz, /readyz and /metrics."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase

from webhookhub import proxies
from webhookhub.conf import hub, variable
from webhookhub.db.errors import kind_of
from webhookhub.db.timeouts import short_timeouts
from webhookhub.logs import Log, log

from . import prometheus, readiness

# Less than the usual time-out of Prometheus.
METRICS_SECONDS = 5
REFUSAL = (
    f"Metrics are available to the networks in {variable('metrics_networks')} "
    f"and with the token in {variable('metrics_token')} (Authorization: Bearer …)."
)
METHODS = ["GET", "HEAD"]
TEXT = "text/plain; charset=utf-8"


class Probes:
    """The first middleware: probes use an IP address, which ALLOWED_HOSTS would refuse, and need no session."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        view = VIEWS.get(request.path_info)
        if view is None:
            return self._get_response(request)
        response = view(request) if request.method in METHODS else HttpResponseNotAllowed(METHODS)
        response["Cache-Control"] = "no-store"
        response["X-Content-Type-Options"] = "nosniff"
        return response


def healthz(request: HttpRequest) -> HttpResponse:
    """This process responds to requests."""
    return JsonResponse({"status": "alive"})


def readyz(request: HttpRequest) -> HttpResponse:
    """The hub can work: the database is migrated and writable, every kind of loop is running, and no work is stuck."""
    status, document = readiness.report()
    response = JsonResponse(document, status=status)
    # Django would log every response that is not ready as an error.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def metrics(request: HttpRequest) -> HttpResponse:
    if not may_read_metrics(request):
        return HttpResponse(f"{REFUSAL}\n", status=403, content_type=TEXT)
    try:
        with short_timeouts(METRICS_SECONDS):
            text = prometheus.text()
    except Error as error:
        log(Log.DATABASE_LOST, process="web", error=str(error), cause=kind_of(error).value)
        return HttpResponse(f"{readiness.NO_DATABASE}\n", status=503, content_type=TEXT)
    return HttpResponse(text, content_type=prometheus.CONTENT_TYPE)


VIEWS = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def may_read_metrics(request: HttpRequest) -> bool:
    """By token, or by the client's address, which webhookhub/proxies.py decides; anyone can send X-Forwarded-For.

    Not even the local machine is allowed by default: behind a local proxy every client looks local.
    """
    return _has_token(request.headers.get("Authorization", "")) or _is_in_network(request.META.get("REMOTE_ADDR", ""))


def _has_token(header: str) -> bool:
    scheme, _, token = header.partition(" ")
    expected = hub().metrics_token
    if not expected or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(token.strip().encode(errors="replace"), expected.encode())


def _is_in_network(text: str) -> bool:
    return proxies.is_in(text, hub().metrics_networks)
