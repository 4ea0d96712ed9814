"""Verify that an endpoint wants its events: it must send a random challenge back.

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
from .endpoint_models import Endpoint
from .models import Subscription, endpoint_id, log_fields
from .sample_delivery import send_now

EVENT_TYPE = "webhookhub.verification"
# A result is one of these codes, or the error code of the request.
CHALLENGE_RETURNED = "challenge_returned"
CHALLENGE_MISSING = "challenge_missing"
URL_CHANGED = "url_changed"
MEANING = {
    CHALLENGE_RETURNED: gettext_noop("the endpoint sent the challenge back"),
    CHALLENGE_MISSING: gettext_noop("the endpoint did not send the challenge back"),
    "vouched": gettext_noop("a person has vouched for the endpoint"),
    URL_CHANGED: gettext_noop("the callback URL was changed during the verification"),
}


@dataclass(frozen=True)
class Verification:
    verified: bool
    result: str


def verify(target: Subscription | Endpoint) -> Verification:
    """Send a challenge and store the result, for an endpoint and all of its subscriptions. A success enables it.

    A failure does not revoke an earlier verification.
    """
    pk = endpoint_id(target)
    challenge = secrets.token_urlsafe(24)
    outcome = check_response(send_now(target, EVENT_TYPE, {"challenge": challenge}).response, challenge)
    # The URL may have been changed since the request.
    unchanged = Endpoint.objects.existing().filter(id=pk, callback_url=target.callback_url)
    now = clock.now()
    columns: dict[str, Any] = {"verification_result": outcome.result, "verification_at": now, "updated_at": now}
    if outcome.verified:
        columns |= {"verified": True, "disabled_at": None, "vouched_by": "", "vouch_reason": ""}

    def store() -> Verification:
        # The health first, like a process that disables the endpoint: in another order, they would block each other.
        enabled = outcome.verified and health.end_disabling(pk, health.BY_VERIFICATION)
        stored = outcome if unchanged.update(**columns) else Verification(False, URL_CHANGED)
        details = {"verified": stored.verified, "result": stored.result} | ({"enabled": True} if enabled else {})
        record(actions.VERIFY, target, name=target.audit_name, details=details)
        return stored

    stored = in_transaction(store)
    target.refresh_from_db()
    log(
        Log.SUBSCRIPTION_VERIFIED if stored.verified else Log.SUBSCRIPTION_VERIFICATION_FAILED,
        **log_fields(target),
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
