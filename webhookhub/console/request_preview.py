"""The request of a delivery as it would be sent now, without the signature and with hidden header values."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from events.models import Event
from jobs.lease import NO_TIME
from subscriptions import credential_services, services
from subscriptions.models import Subscription
from subscriptions.signing import STANDARD_HEADERS

HIDDEN = "•••"
# A longer body does not fit into a command line.
MAX_BODY = 20_000


@dataclass(frozen=True)
class Request:
    url: str
    headers: list[str]
    body: str
    # The query of the URL has hidden values.
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
        return len(self.body) <= MAX_BODY


def preview(event: Event, subscription: Subscription, attempt: int) -> Request:
    """Signature, timestamp and traceparent are left out, because each request has its own."""
    own = [f"webhook-id: {event.uid}", f"webhook-attempt: {max(1, attempt)}"]
    url = subscription.shown_url
    custom = [f"{name}: {HIDDEN}" for name in services.header_names(subscription)]
    if credential_services.shown_oauth2(subscription) is not None:
        custom.append(f"Authorization: Bearer {HIDDEN}")
    headers = [*own, *STANDARD_HEADERS, *custom]
    return Request(url, headers, body(event), url != subscription.callback_url)


def body(event: Event) -> str:
    """The JSON body: type, timestamp and data. The payload is inserted as it is stored."""
    timestamp = event.created_at.isoformat().replace("+00:00", "Z") if event.created_at else f"{NO_TIME}Z"
    return f'{{"type":{json.dumps(event.event_type)},"timestamp":"{timestamp}","data":{event.payload}}}'
