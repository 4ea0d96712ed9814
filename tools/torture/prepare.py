"""Before the curtain rises: the tables, and verified subscriptions to the receiver."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from django.core.management import call_command

from .plan import REFUSED_LIMIT, RETRY_LIMIT

# path: event type, attempts allowed
PATHS = {
    "/steady": ("order.created", None),
    "/flaky": ("order.created", None),
    "/broken": ("order.refused", REFUSED_LIMIT),
    "/slow": ("order.slow", None),
}
UNWANTED = "order.unwanted"
# The workflow that some events belong to: one of those that are shipped, step by step.
WORKFLOW = "customer_registration"
WORKFLOW_STEPS = ("customer.registered", "email.sent", "loyalty.account_created", "gift.sent")
# Whose the events are that come in by HTTP.
WEB_SOURCE = "web"


def limit_of(path: str) -> int:
    """How many attempts a delivery to it has, by what was asked for and not by what the hub has made of it."""
    return PATHS[path][1] or RETRY_LIMIT


def key_of(path: str) -> bytes:
    """What its requests are signed with: known beforehand, so that nobody has to ask the hub for it."""
    return hashlib.sha256(f"the key of {path}".encode()).digest()


def main(arguments: Sequence[str]) -> None:
    """`arguments`: where to write the API key, and path=URL for each path."""
    from api import keys, scopes
    from subscriptions.models import Subscription
    from subscriptions.verification import verify
    from webhookhub import crypto

    call_command("migrate", verbosity=0)
    key_file, *targets = arguments
    _, key = keys.create(WEB_SOURCE, [scopes.EVENTS_WRITE], by="the torture", source=WEB_SOURCE)
    Path(key_file).write_text(key)
    for argument in targets:
        path, _, url = argument.partition("=")
        event_type, limit = PATHS[path]
        secret = "whsec_" + base64.b64encode(key_of(path)).decode()
        subscription = Subscription.objects.create(
            event_type=event_type, callback_url=url, max_retry_limit=limit, secret=crypto.encrypt(secret)
        )
        result = verify(subscription)
        if not result.verified:
            raise SystemExit(f"{url} could not be verified: {result.result}")
