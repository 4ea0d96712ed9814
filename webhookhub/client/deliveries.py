"""Requests to send deliveries now, to abandon them, or to send them again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from . import errors
from .retry import Deadline
from .transport import Transport


@dataclass(frozen=True)
class DeliveryRequest:
    """`changed` deliveries have been changed so far; the hub has applied the request when `applied` is true."""

    uid: str
    kind: str
    changed: int
    applied: bool
    # The delivery that follows one that was sent again, once it exists.
    new_delivery: int | None


class Deliveries:
    """The requests that `Client.deliveries` makes; each needs the scope deliveries:send or deliveries:abandon.

    The hub stores a request and applies it soon. A call whose response was lost is repeated with the same idempotency
    key, so that the request is made once; give an `idempotency_key` of your own to repeat a call later.
    """

    def __init__(self, transport: Transport, deadline: float) -> None:
        self._transport = transport
        self._deadline = deadline

    def send_now(self, delivery: int, reason: str, *, idempotency_key: str | None = None) -> DeliveryRequest:
        """A waiting delivery is attempted as soon as possible."""
        return self._request(f"deliveries/{int(delivery)}/send-now", {"reason": reason}, idempotency_key)

    def abandon(self, delivery: int, reason: str, *, idempotency_key: str | None = None) -> DeliveryRequest:
        """An open delivery becomes a dead letter; one in progress does when its attempt has failed."""
        return self._request(f"deliveries/{int(delivery)}/abandon", {"reason": reason}, idempotency_key)

    def send_again(self, delivery: int, reason: str, *, idempotency_key: str | None = None) -> DeliveryRequest:
        """A delivery that has ended is sent again, as a new delivery."""
        return self._request(f"deliveries/{int(delivery)}/send-again", {"reason": reason}, idempotency_key)

    def send_all_now(
        self, subscription: int, reason: str, *, whole_endpoint: bool = False, idempotency_key: str | None = None
    ) -> DeliveryRequest:
        """All waiting deliveries of a subscription, or of all of the same customer with the same callback URL."""
        body = {"reason": reason, "whole_endpoint": whole_endpoint}
        return self._request(f"subscriptions/{int(subscription)}/send-now", body, idempotency_key)

    def abandon_all(
        self, subscription: int, reason: str, *, whole_endpoint: bool = False, idempotency_key: str | None = None
    ) -> DeliveryRequest:
        """All open deliveries of a subscription, or of all of the same customer with the same callback URL."""
        body = {"reason": reason, "whole_endpoint": whole_endpoint}
        return self._request(f"subscriptions/{int(subscription)}/abandon", body, idempotency_key)

    def abandon_matching(
        self, conditions: Mapping[str, Any], reason: str, *, idempotency_key: str | None = None
    ) -> DeliveryRequest:
        """All open deliveries for which the conditions hold: status, event_type, subscription, customer, since, until.

        At least one is required. Times are texts such as 2026-01-31T00:00:00Z.
        """
        return self._request("deliveries/abandon", {**conditions, "reason": reason}, idempotency_key)

    def find(self, uid: str) -> DeliveryRequest:
        """A request and its progress; needs the scope read."""
        path = f"/api/v1/requests/{quote(uid, safe='')}"
        return _made(self._transport.send("GET", path, b"", Deadline(self._deadline)))

    def _request(self, path: str, body: Mapping[str, Any], idempotency_key: str | None) -> DeliveryRequest:
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        data = json.dumps(body).encode()
        return _made(self._transport.send("POST", f"/api/v1/{path}", data, Deadline(self._deadline), headers))


def _made(document: Mapping[str, Any]) -> DeliveryRequest:
    try:
        return DeliveryRequest(
            str(document["uid"]),
            str(document["kind"]),
            int(document["changed"]),
            document["applied_at"] is not None,
            document["new_delivery"],
        )
    except (KeyError, TypeError, ValueError):
        raise errors.UnexpectedResponse("the hub's response is no request; is the URL right?") from None
