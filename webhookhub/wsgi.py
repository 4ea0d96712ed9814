"""The web server's entry point. Requests that send events go to api/ingest.py, all others to Django.

Requests with an unreadable Content-Type are refused before Django: it parses that header while it creates the request,
before any middleware, so an error there would be the web server's own error page and a traceback in the log.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application
from django.utils.http import parse_header_parameters

from webhookhub import proxies
from webhookhub.db import ingest

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# A worker that exits with this code stops gunicorn; with any other code, gunicorn starts it again for ever.
GUNICORN_BOOT_ERROR = 3
DETAIL = "The header Content-Type cannot be read; write it as application/json."
INGEST = "api.ingest"  # by name, as in urls.py
PROBLEM = {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": DETAIL}
# The accepted character sets. Python has others by name that cannot decode a URL, or that are not character sets.
CHARSETS = {"utf-8", "utf-16", "ascii", "iso8859-1", "iso8859-15", "cp1252", "big5", "gb18030", "gbk", "shift_jis"}


def refusing_unreadable_content_types(application: Application) -> Application:
    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        proxies.apply(environ)
        if _is_readable(environ.get("CONTENT_TYPE", "")):
            return application(environ, start_response)
        return _bad_request(environ, start_response)

    return wrapped


def _is_readable(content_type: str) -> bool:
    try:
        _, parameters = parse_header_parameters(content_type)
    except (LookupError, ValueError):  # an unknown or wrong character set in a parameter
        return False
    return "charset" not in parameters or _is_charset(parameters["charset"])


def _is_charset(name: str) -> bool:
    try:
        return codecs.lookup(name).name in CHARSETS
    except LookupError:
        return True  # Django ignores it; the API accepts JSON only and says so
    except ValueError:
        return False


def _bad_request(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A problem document for the API, one plain sentence elsewhere."""
    if environ.get("PATH_INFO", "").startswith("/api/"):
        content_type, text = "application/problem+json", json.dumps(PROBLEM)
    else:
        content_type, text = "text/plain; charset=utf-8", f"{DETAIL}\n"
    headers = [
        ("Content-Type", content_type),
        ("Content-Length", str(len(text))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    start_response("400 Bad Request", headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text.encode()]


def with_ingest(application: Application) -> Application:
    """Handles the requests that send events itself."""
    send_events = import_module(INGEST)  # after Django is set up

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return (send_events.application if send_events.is_for(environ) else application)(environ, start_response)

    return wrapped


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
try:
    application = refusing_unreadable_content_types(with_ingest(get_wsgi_application()))
    ingest.require_same_database()
except ImproperlyConfigured as error:
    sys.stderr.write(f"The hub is not configured: {error}\n")
    sys.exit(GUNICORN_BOOT_ERROR)
