"""Send a test event to an endpoint: signed like a delivery, and not stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.egress.engine import send
from webhookhub.egress.messages import Response
from webhookhub.ids import new_uid

from . import signing
from .endpoint_models import Endpoint, EndpointSettings
from .models import Subscription
from .oauth2 import Token, read_token, token_request
from .redaction import response_snippet
from .signing import Unsendable, oauth2_client, sign

TEST_EVENT_TYPE = "webhookhub.test"


@dataclass(frozen=True)
class SampleResult:
    message_id: str
    response: Response
    snippet: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "webhook_id": self.message_id,
            "delivered": self.response.error_code is None,
            "response_status": self.response.status,
            "error_code": self.response.error_code,
            "duration_ms": self.response.duration_ms,
            "response_snippet": self.snippet,
        }


def send_test(target: Subscription | Endpoint) -> SampleResult:
    data: dict[str, object] = {"endpoint": target.pk}
    if isinstance(target, Subscription):
        data = {"subscription": target.id, "for": target.event_type}
    return send_now(
        target,
        TEST_EVENT_TYPE,
        data,
        before_sending=lambda: record(actions.TEST, target, name=target.audit_name),
    )


def send_now(
    target: EndpointSettings,
    event_type: str,
    data: dict[str, object],
    before_sending: Callable[[], None] = lambda: None,
) -> SampleResult:
    """Send one signed request outside of any delivery. `before_sending` is not called if it cannot be signed."""
    now = clock.now()
    message_id = str(new_uid())
    document = {"type": event_type, "timestamp": now.isoformat().replace("+00:00", "Z"), "data": data}
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    endpoint = signing.Endpoint(*(getattr(target, column) for column in signing.Endpoint._fields))
    token = Token()
    try:
        client = oauth2_client(endpoint)
        if client is not None:
            fetched = send(token_request(client))
            token = read_token(fetched)
            if token.error_code:
                return SampleResult(message_id, Response(token.error_code, fetched.duration_ms))
        more_headers = [token.header] if token.text else []
        request = sign(endpoint, message_id, body, int(now.timestamp()), *more_headers)
    except Unsendable as error:
        return SampleResult(message_id, Response(error.error_code, 0))
    before_sending()
    response = send(request)
    return SampleResult(message_id, response, response_snippet(endpoint, response.body, token.text))
