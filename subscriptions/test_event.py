"""A test event for people who set an endpoint up: signed and sent like a delivery, stored nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.egress.engine import send
from webhookhub.egress.messages import Response
from webhookhub.ids import new_uid

from .models import Subscription
from .signed_request import Endpoint, Unsendable, response_snippet, sign

TEST_EVENT_TYPE = "webhookhub.test"


@dataclass(frozen=True)
class Trial:
    message_id: str
    answer: Response
    snippet: str = ""


def send_test(subscription: Subscription) -> Trial:
    def tell() -> None:
        record(actions.TEST, subscription, name=subscription.audit_name)

    data: dict[str, object] = {"subscription": subscription.id, "for": subscription.event_type}
    return send_now(subscription, TEST_EVENT_TYPE, data, tell)


def send_now(
    subscription: Subscription, event_type: str, data: dict[str, object], tell: Callable[[], None] = lambda: None
) -> Trial:
    """One signed request to the subscription's endpoint, outside of any delivery.

    `tell` is called before it is sent, for what has left cannot be taken back; not if it cannot be sent at all.
    """
    now = datetime.now(UTC)
    message_id = str(new_uid())
    document = {"type": event_type, "timestamp": now.isoformat().replace("+00:00", "Z"), "data": data}
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    endpoint = endpoint_of(subscription)
    try:
        request = sign(endpoint, message_id, body, int(now.timestamp()))
    except Unsendable as reason:
        return Trial(message_id, Response(reason.error_code, 0))
    tell()
    answer = send(request)
    return Trial(message_id, answer, response_snippet(endpoint, answer.body))


def endpoint_of(subscription: Subscription) -> Endpoint:
    return Endpoint(
        str(subscription.callback_url),
        str(subscription.secret),
        str(subscription.previous_secret),
        subscription.previous_secret_until,
        subscription.custom_headers,
    )
