"""An endpoint shows that it wants a subscription's events by sending back a random challenge.

Nothing else sets `verified`: the table refuses an update that sets it without a new `verification_at`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Any

from trail import actions
from trail.record import record
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.egress import errors
from webhookhub.egress.messages import Answer
from webhookhub.logs import Fact, log

from .models import Subscription
from .trial import send_now

EVENT_TYPE = "webhookhub.verification"
CHANGED_MEANWHILE = "the address was changed while it was being verified"


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
            name=subscription.in_the_trail,
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


def judge(answer: Answer, challenge: str) -> Verification:
    """Whether an answer proves it: 2xx, and the challenge as its body or as the value `challenge` of a JSON body."""
    if answer.error_code is not None:
        return Verification(False, errors.in_words(answer.error_code))
    # An escape in JSON can stand for half a character, which no encoding has.
    if hmac.compare_digest(_echo(answer.body).encode(errors="replace"), challenge.encode()):
        return Verification(True, "the endpoint sent the challenge back")
    return Verification(False, f"the endpoint answered {answer.status} but did not send the challenge back")


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
