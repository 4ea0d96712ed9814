"""Verify that an endpoint wants a subscription's events: it must send a random challenge back.

Nothing else sets `verified`: a trigger refuses an update that sets it without a new `verification_at`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_noop

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.egress import error_codes
from webhookhub.egress.messages import Response
from webhookhub.logs import Log, log

from . import health
from .models import Subscription
from .sample_delivery import send_now

EVENT_TYPE = "webhookhub.verification"
# A result is one of these codes, or the error code of the request.
CHALLENGE_RETURNED = "challenge_returned"
CHALLENGE_MISSING = "challenge_missing"
URL_CHANGED = "url_changed"
MEANING = {
    CHALLENGE_RETURNED: gettext_noop("the endpoint sent the challenge back"),
    CHALLENGE_MISSING: gettext_noop("the endpoint did not send the challenge back"),
    URL_CHANGED: gettext_noop("the callback URL was changed during the verification"),
}


@dataclass(frozen=True)
class Verification:
    verified: bool
    result: str


def verify(subscription: Subscription) -> Verification:
    """Send a challenge and store the result. A success enables a disabled endpoint.

    A failure does not revoke an earlier verification.
    """
    challenge = secrets.token_urlsafe(24)
    outcome = check_response(send_now(subscription, EVENT_TYPE, {"challenge": challenge}).response, challenge)
    # The URL may have been changed since the request.
    unchanged = Subscription.objects.filter(id=subscription.id, callback_url=subscription.callback_url)
    now = clock.now()
    columns: dict[str, Any] = {"verification_result": outcome.result, "verification_at": now, "updated_at": now}
    if outcome.verified:
        columns |= {"verified": True, "disabled_at": None}

    def store() -> Verification:
        # The endpoint first, like a process that disables it: in another order, they would block each other.
        enabled = outcome.verified and health.end_disabling(subscription.callback_url, health.BY_VERIFICATION)
        stored = outcome if unchanged.update(**columns) else Verification(False, URL_CHANGED)
        details = {"verified": stored.verified, "result": stored.result} | ({"enabled": True} if enabled else {})
        record(actions.VERIFY, subscription, name=subscription.audit_name, details=details)
        return stored

    stored = in_transaction(store)
    subscription.refresh_from_db()
    log(
        Log.SUBSCRIPTION_VERIFIED if stored.verified else Log.SUBSCRIPTION_VERIFICATION_FAILED,
        subscription_id=subscription.id,
        reason=stored.result,
    )
    return stored


def check_response(response: Response, challenge: str) -> Verification:
    """Verified by a 2xx response whose body is the challenge, or a JSON object with it as `challenge`."""
    if response.error_code is not None:
        return Verification(False, response.error_code)
    # `replace`: a JSON escape can be half of a surrogate pair, which cannot be encoded.
    if hmac.compare_digest(_returned(response.body).encode(errors="replace"), challenge.encode()):
        return Verification(True, CHALLENGE_RETURNED)
    return Verification(False, CHALLENGE_MISSING)


def describe(result: str) -> str:
    """A result in the viewer's language."""
    return gettext(MEANING[result]) if result in MEANING else error_codes.describe(result)


def _returned(body: bytes) -> str:
    """The challenge in a response body, which may be anything: an endpoint may be hostile."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or brackets without end
        return text
    if isinstance(document, dict):
        document = document.get("challenge", "")
        # Only strings: str() of a deeply nested list could fail as well.
        return document if isinstance(document, str) else ""
    return document if isinstance(document, str) else text
