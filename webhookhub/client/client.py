"""Sends events to a hub. Retries are safe, because the hub stores an event with the same external id once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from . import errors
from .deliveries import Deliveries
from .errors import HubError
from .events import Encoded, Event, Failed, Published, Result, batch_body, batches, encode
from .retry import Deadline
from .transport import Transport, as_error


@dataclass(frozen=True)
class Endpoint:
    """A new endpoint. The hub shows its secret this once."""

    uid: str
    secret: str


# Every further request of the same call would fail the same way.
FATAL = (errors.Unauthorized, errors.Forbidden)


class Client:
    """`url` is the hub's address, `key` an API key with the scope events:write.

    `deliveries` makes requests for deliveries: send now, abandon, send again.

    `timeout` bounds one request, `deadline` a call of `publish` or a batch of `publish_many` with all retries. `verify`
    is False or the path of a CA bundle, as in `requests`. Use one client per thread.
    """

    def __init__(
        self, url: str, key: str, *, timeout: float = 10.0, deadline: float = 30.0, verify: bool | str = True
    ) -> None:
        if timeout <= 0 or deadline <= 0:
            raise ValueError("timeout and deadline must be above 0 seconds")
        self._deadline = deadline
        self._transport = Transport(url, key, timeout, verify)
        self.deliveries = Deliveries(self._transport, deadline)

    def publish(
        self,
        event_type: str,
        payload: Any,
        external_id: str | None = None,
        correlation_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        customer: str | None = None,
    ) -> Published:
        """Store one event; when this returns, it is committed. Raises a HubError otherwise."""
        event = encode(Event(event_type, payload, external_id, correlation_id, labels, customer))
        try:
            document = self._transport.post("/api/v1/events", event.body, Deadline(self._deadline))
            return _published(document, event, bool(document.get("created")))
        except HubError as error:
            error.external_id = event.external_id
            raise

    def publish_many(self, events: Iterable[Event]) -> list[Result]:
        """Store events, up to a thousand per request; one result each, in order: Published, or Failed with its error.

        A failed event raises nothing: check the results, or pass them to `raise_for_failures`. After Unavailable, the
        event may be stored: send it again with the result's `external_id`, and it is stored once.
        """
        results: dict[int, Result] = {}
        fatal: HubError | None = None
        for batch in batches(_encoded(events, results)):
            if fatal is None:
                batch_results, fatal = self._send(batch)
            else:
                batch_results = _all_failed(batch, fatal)
            results |= {event.position: result for event, result in zip(batch, batch_results, strict=True)}
        return [results[position] for position in sorted(results)]

    def put_customer(self, key: str, name: str | None = None) -> None:
        """Create a customer, or change its name; repeating it changes nothing. Needs the scope customers:write."""
        body = json.dumps({} if name is None else {"name": name}).encode()
        self._transport.send("PUT", f"/api/v1/customers/{quote(key, safe='')}", body, Deadline(self._deadline))

    def create_endpoint(
        self,
        callback_url: str,
        event_types: Sequence[str],
        *,
        customer: str | None = None,
        secret: str | None = None,
        **settings: Any,
    ) -> Endpoint:
        """Create an endpoint with a subscription to each event type or pattern. Needs the scope subscriptions:write.

        Raises Conflict if the customer has subscribed this URL to one of them, which a repeated request may have done.
        """
        values = {"callback_url": callback_url, "event_types": list(event_types), "customer": customer, **settings}
        if secret is not None:
            values["secret"] = secret
        document = self._endpoint("POST", "", values)
        return Endpoint(str(document["uid"]), str(document["secret"]))

    def verify_endpoint(self, uid: str) -> bool:
        """Have the hub send its challenge; whether the endpoint is verified then."""
        return bool(self._endpoint("POST", f"/{quote(uid, safe='')}/verify").get("verified"))

    def change_endpoint(self, uid: str, **settings: Any) -> None:
        """Such as `event_types`, `active` or `rate_limit`; the others stay as they are."""
        self._endpoint("PATCH", f"/{quote(uid, safe='')}", settings)

    def delete_endpoint(self, uid: str) -> None:
        self._endpoint("DELETE", f"/{quote(uid, safe='')}")

    def _endpoint(self, method: str, path: str, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        body = b"" if values is None else json.dumps(values).encode()
        return self._transport.send(method, f"/api/v1/endpoints{path}", body, Deadline(self._deadline))

    def _send(self, batch: Sequence[Encoded]) -> tuple[list[Result], HubError | None]:
        """The results of one batch, and the error after which the next ones need not be sent."""
        try:
            document = self._transport.post("/api/v1/events/batch", batch_body(batch), Deadline(self._deadline))
            return _results(document, batch), None
        except errors.TooLarge as error:
            if len(batch) == 1:
                return _all_failed(batch, error), None
        except HubError as error:
            return _all_failed(batch, error), error if isinstance(error, FATAL) else None
        # The hub accepts smaller batches than this client expects.
        middle = len(batch) // 2
        first, fatal = self._send(batch[:middle])
        if fatal is not None:
            return first + _all_failed(batch[middle:], fatal), fatal
        second, fatal = self._send(batch[middle:])
        return first + second, fatal

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def raise_for_failures(results: Iterable[Result]) -> None:
    """Raise the first failure among the results of `publish_many`, if there is one."""
    for result in results:
        if isinstance(result, Failed):
            raise result.error


def _encoded(events: Iterable[Event], results: dict[int, Result]) -> Iterator[Encoded]:
    """The events that can be sent; adds a result for each of the others."""
    for position, event in enumerate(events):
        try:
            yield encode(event, position)
        except errors.Invalid as error:
            results[position] = Failed(error.external_id or "", error)


def _results(document: dict[str, Any], batch: Sequence[Encoded]) -> list[Result]:
    items = document.get("results")
    if not isinstance(items, list) or len(items) != len(batch):
        raise errors.UnexpectedResponse(f"the hub's response does not have a result for each of {len(batch)} events")
    places = (f"events[{index}]." for index in range(len(batch)))
    return [_result(item, event, place) for item, event, place in zip(items, batch, places, strict=True)]


def _result(item: Any, event: Encoded, place: str) -> Result:
    status = item.get("status") if isinstance(item, dict) else None
    if status in (200, 201):
        return _published(item, event, status == 201)
    problem = item.get("problem") if isinstance(item, dict) else None
    error = as_error(int(status or 0), problem if isinstance(problem, dict) else {}, place)
    error.external_id = event.external_id
    return Failed(event.external_id, error)


def _published(document: dict[str, Any], event: Encoded, created: bool) -> Published:
    if "uid" not in document:
        raise errors.UnexpectedResponse("the hub's response has no uid; is the URL right?")
    return Published(str(document["uid"]), event.external_id, str(document.get("correlation_id", "")), created)


def _all_failed(batch: Sequence[Encoded], error: HubError) -> list[Result]:
    return [Failed(event.external_id, error) for event in batch]
