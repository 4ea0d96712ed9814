"""An endpoint shows that it wants a subscription's events by sending back a random challenge.

Nothing else sets `verified`: the table refuses an update that sets it without a new `verification_at`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_noop

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.egress import errors
from webhookhub.egress.messages import Response
from webhookhub.logs import Fact, log

from .models import Subscription
from .test_event import send_now

EVENT_TYPE = "webhookhub.verification"
# Stored in English, whoever asked; `in_words` says it in the viewer's language.
PROVED = gettext_noop("the endpoint sent the challenge back")
UNPROVED = gettext_noop("the endpoint answered %(status)s but did not send the challenge back")
REFUSED = gettext_noop("the endpoint answered %(status)s")
CHANGED_MEANWHILE = gettext_noop("the address was changed while it was being verified")
WITH_STATUS = {re.compile(re.escape(text).replace(r"%\(status\)s", "([0-9]+)")): text for text in (UNPROVED, REFUSED)}


@dataclass(frozen=True)
class Verification:
    verified: bool
    reason: str


def verify(subscription: Subscription) -> Verification:
    """Ask the endpoint, and store what came of it. A failure is recorded but takes no earlier proof away."""
    challenge = secrets.token_urlsafe(24)
    result = judge(send_now(subscription, EVENT_TYPE, {"challenge": challenge}).answer, challenge)
    # Only for the address that was asked: it may have been changed in the meantime.
    asked = Subscription.objects.filter(id=subscription.id, callback_url=subscription.callback_url)
    now = clock.now()
    outcome: dict[str, Any] = {"verification_result": result.reason, "verification_at": now, "updated_at": now}
    if result.verified:
        outcome["verified"] = True

    def store() -> bool:
        stored = bool(asked.update(**outcome))
        told = result.reason if stored else CHANGED_MEANWHILE
        record(
            actions.VERIFY,
            subscription,
            name=subscription.audit_name,
            details={"verified": stored and result.verified, "answer": told},
        )
        return stored

    if not in_transaction(store):
        result = Verification(False, CHANGED_MEANWHILE)
    subscription.refresh_from_db()
    log(
        Fact.SUBSCRIPTION_VERIFIED if result.verified else Fact.SUBSCRIPTION_NOT_VERIFIED,
        subscription_id=subscription.id,
        reason=result.reason,
    )
    return result


def judge(answer: Response, challenge: str) -> Verification:
    """Whether an answer proves it: 2xx, and the challenge as its body or as the value `challenge` of a JSON body."""
    if answer.error_code is not None:
        return Verification(False, errors.in_words(answer.error_code))
    # An escape in JSON can stand for half a character, which no encoding has.
    if hmac.compare_digest(_echo(answer.body).encode(errors="replace"), challenge.encode()):
        return Verification(True, PROVED)
    return Verification(False, UNPROVED % {"status": answer.status})


def in_words(reason: str) -> str:
    """A stored reason in the viewer's language."""
    for pattern, text in WITH_STATUS.items():
        if match := pattern.fullmatch(reason):
            return gettext(text) % {"status": match[1]}
    return gettext(reason) if reason else ""


def _echo(body: bytes) -> str:
    """What the body says, whatever it is: it comes from somebody who may want to do harm."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or brackets without end
        return text
    if isinstance(document, dict):
        # Nothing but text is taken: turning a deep list into text could fail as well.
        document = document.get("challenge")
        return document if isinstance(document, str) else ""
    return document if isinstance(document, str) else text
