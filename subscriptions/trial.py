"""A test event for people who set an endpoint up: signed and sent like a delivery, stored nowhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from trail import actions
from trail.record import record
from webhookhub.egress.curl import send
from webhookhub.egress.messages import Answer
from webhookhub.ids import new_uid

from .envelope import Endpoint, Unsendable, readable, seal
from .models import Subscription

TEST_EVENT_TYPE = "webhookhub.test"


@dataclass(frozen=True)
class Trial:
    message_id: str
    answer: Answer
    snippet: str = ""


def send_test(subscription: Subscription) -> Trial:
    # Before it is sent: what has left cannot be taken back.
    record(actions.TEST, subscription, name=subscription.in_the_trail)
    return send_now(subscription, TEST_EVENT_TYPE, {"subscription": subscription.id, "for": subscription.event_type})


def send_now(subscription: Subscription, event_type: str, data: dict[str, object]) -> Trial:
    """One signed request to the subscription's endpoint, outside of any delivery."""
    now = datetime.now(UTC)
    message_id = str(new_uid())
    document = {"type": event_type, "timestamp": now.isoformat().replace("+00:00", "Z"), "data": data}
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    endpoint = endpoint_of(subscription)
    try:
        request = seal(endpoint, message_id, body, int(now.timestamp()))
    except Unsendable as reason:
        return Trial(message_id, Answer(reason.error_code, 0))
    answer = send(request)
    return Trial(message_id, answer, readable(endpoint, answer.body))


def endpoint_of(subscription: Subscription) -> Endpoint:
    return Endpoint(
        str(subscription.callback_url),
        str(subscription.secret),
        str(subscription.previous_secret),
        subscription.previous_secret_until,
        subscription.custom_headers,
    )
