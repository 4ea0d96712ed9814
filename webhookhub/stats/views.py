"""What machines ask a hub: whether this process lives, whether the hub can work, and its figures."""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse

from webhookhub.db.timeouts import short_timeouts
from webhookhub.logs import Fact, log

from . import access, prometheus, readiness

# Less than those who ask usually wait.
READY_SECONDS = 2
METRICS_SECONDS = 5
NO_DATABASE = "the database does not answer"


def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers requests; nothing else is asked."""
    return JsonResponse({"status": "alive"})


def readyz(request: HttpRequest) -> HttpResponse:
    try:
        with short_timeouts(READY_SECONDS):
            missing = readiness.missing()
    except (DatabaseError, InterfaceError) as error:
        # The log alone says more: an error may name the server and its user.
        log(Fact.DATABASE_LOST, process="web", error=str(error))
        missing = [NO_DATABASE]
    if missing:
        return JsonResponse({"status": "not ready", "missing": missing}, status=503)
    return JsonResponse({"status": "ready", "missing": []})


def metrics(request: HttpRequest) -> HttpResponse:
    if not access.may_read_metrics(request):
        return HttpResponse(f"{access.REFUSAL}\n", status=403, content_type="text/plain; charset=utf-8")
    try:
        with short_timeouts(METRICS_SECONDS):
            text = prometheus.text()
    except (DatabaseError, InterfaceError) as error:
        log(Fact.DATABASE_LOST, process="web", error=str(error))
        return HttpResponse(f"{NO_DATABASE}\n", status=503, content_type="text/plain; charset=utf-8")
    return HttpResponse(text, content_type=prometheus.CONTENT_TYPE)
