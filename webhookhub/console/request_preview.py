"""The request of a delivery as it would be sent now, for people: without the signature, or what headers hold."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from events.models import Event
from jobs.lease import NO_TIME
from subscriptions import headers
from subscriptions.models import Subscription
from subscriptions.signed_request import STANDARD_HEADERS
from webhookhub import crypto

HIDDEN = "•••"
# What a command line still takes, and a person still reads.
LONGEST_BODY = 20_000


@dataclass(frozen=True)
class Sent:
    url: str
    headers: list[str]
    body: str
    # Whoever sends it has to put something into the address first.
    url_is_masked: bool

    @property
    def text(self) -> str:
        return "\n".join([f"POST {self.url}", *self.headers, "", self.body])

    @property
    def curl(self) -> str:
        lines = [f"curl -X POST {shlex.quote(self.url)}"]
        lines += [f"-H {shlex.quote(header)}" for header in self.headers]
        lines.append(f"--data-raw {shlex.quote(self.body)}" if self.is_short else "--data-binary @body.json")
        return " \\\n  ".join(lines)

    @property
    def is_short(self) -> bool:
        return len(self.body) <= LONGEST_BODY


def sent(event: Event, subscription: Subscription, attempt: int) -> Sent:
    """What an attempt sends as the subscription is now: nothing keeps to which address an earlier one went.

    The signature, the time of sending and the traceparent are left out: each is new every time.
    """
    own = [f"webhook-id: {event.uid}", f"webhook-attempt: {max(1, attempt)}"]
    url = subscription.shown_url
    return Sent(url, [*own, *STANDARD_HEADERS, *_custom(subscription)], body(event), url != subscription.callback_url)


def body(event: Event) -> str:
    """Type, time and data; the payload's text goes in as it is stored."""
    timestamp = event.created_at.isoformat().replace("+00:00", "Z") if event.created_at else f"{NO_TIME}Z"
    return f'{{"type":{json.dumps(event.event_type)},"timestamp":"{timestamp}","data":{event.payload}}}'


def _custom(subscription: Subscription) -> list[str]:
    if not subscription.custom_headers:
        return []
    try:
        names = headers.names(crypto.decrypt(subscription.custom_headers))
    except (crypto.Undecipherable, ValueError):
        return []
    return [f"{name}: {HIDDEN}" for name in names]
