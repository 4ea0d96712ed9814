"""Migrates the database and creates an API key and verified subscriptions."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from django.core.management import call_command

from .config import REFUSED_LIMIT, RETRY_LIMIT

# path: event type, attempts allowed
PATHS = {
    "/steady": ("order.created", None),
    "/flaky": ("order.created", None),
    "/broken": ("order.refused", REFUSED_LIMIT),
    "/slow": ("order.slow", None),
}
# An event type without subscriptions.
UNWANTED = "order.unwanted"
# The included workflow that some events belong to, and its steps.
WORKFLOW = "customer_registration"
WORKFLOW_STEPS = ("customer.registered", "email.sent", "loyalty.account_created", "gift.sent")
# The source of the events that are sent by HTTP.
WEB_SOURCE = "web"


def limit_of(path: str) -> int:
    """The configured number of attempts, which the hub must follow."""
    return PATHS[path][1] or RETRY_LIMIT


def key_of(path: str) -> bytes:
    """The signing key of a path, known without the hub."""
    return hashlib.sha256(f"key of {path}".encode()).digest()


def main(arguments: Sequence[str]) -> None:
    """`arguments`: the file for the API key, and path=URL for each path."""
    from api import keys, scopes
    from subscriptions.models import Subscription
    from subscriptions.verification import verify
    from webhookhub import crypto

    call_command("migrate", verbosity=0)
    key_file, *endpoints = arguments
    _, key = keys.create(WEB_SOURCE, [scopes.EVENTS_WRITE], by="torture", source=WEB_SOURCE)
    Path(key_file).write_text(key)
    for argument in endpoints:
        path, _, url = argument.partition("=")
        event_type, limit = PATHS[path]
        secret = "whsec_" + base64.b64encode(key_of(path)).decode()
        subscription = Subscription.objects.create(
            event_type=event_type, callback_url=url, max_retry_limit=limit, secret=crypto.encrypt(secret)
        )
        result = verify(subscription)
        if not result.verified:
            raise SystemExit(f"{url} could not be verified: {result.result}")
