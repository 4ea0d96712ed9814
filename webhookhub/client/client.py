"""Sends events to a hub. Safe to retry, because the hub stores an event once however often it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from . import batches, errors
from .errors import HubError
from .events import Encoded, Event, Failed, Published, Result, encode
from .retry import Patience
from .transport import Transport, as_error

# What makes every further request of the same call fail the same way.
HOPELESS = (errors.Unauthorized, errors.Forbidden)


class Client:
    """`url` is the hub's address, `key` an API key with the scope events:write.

    `timeout` bounds one request, `deadline` a whole call with all its retries: of `publish`, and of each batch of
    `publish_many`. `verify` is False or the path of a CA bundle, as in `requests`. Use one client in each thread.
    """

    def __init__(
        self, url: str, key: str, *, timeout: float = 10.0, deadline: float = 30.0, verify: bool | str = True
    ) -> None:
        if timeout <= 0 or deadline <= 0:
            raise ValueError("timeout and deadline must be above 0 seconds")
        self._deadline = deadline
        self._transport = Transport(url, key, timeout, verify)

    def publish(
        self,
        event_type: str,
        payload: Any,
        external_id: str | None = None,
        correlation_id: str | None = None,
    ) -> Published:
        """Store one event; when this returns, it is stored for good. Raises a HubError if it is not, or not surely."""
        event = encode(Event(event_type, payload, external_id, correlation_id))
        try:
            answer = self._transport.post("/api/v1/events", event.body, Patience(self._deadline))
            return _published(answer, event, bool(answer.get("created")))
        except HubError as error:
            error.external_id = event.external_id
            raise

    def publish_many(self, events: Iterable[Event]) -> list[Result]:
        """Store events, up to a thousand a request; one result each, in order: Published, or Failed with its error.

        Nothing is raised for what fails: look at the results, or give them to `raise_for_failures`. What Failed as
        Unavailable may be stored all the same; sent again with the result's `external_id` it is stored once.
        """
        results: dict[int, Result] = {}
        hopeless: HubError | None = None
        for batch in batches.cut(_encoded(events, results)):
            if hopeless is None:
                found, hopeless = self._send(batch)
            else:
                found = _all_failed(batch, hopeless)
            results |= {event.position: result for event, result in zip(batch, found, strict=True)}
        return [results[position] for position in sorted(results)]

    def _send(self, batch: Sequence[Encoded]) -> tuple[list[Result], HubError | None]:
        """The results of one batch, and the error that the next ones need not be tried after."""
        try:
            answer = self._transport.post("/api/v1/events/batch", batches.body(batch), Patience(self._deadline))
            return _results(answer, batch), None
        except errors.TooLarge as error:
            if len(batch) == 1:
                return _all_failed(batch, error), None
        except HubError as error:
            return _all_failed(batch, error), error if isinstance(error, HOPELESS) else None
        # The hub accepts less at once than this client thinks.
        middle = len(batch) // 2
        first, hopeless = self._send(batch[:middle])
        if hopeless is not None:
            return first + _all_failed(batch[middle:], hopeless), hopeless
        second, hopeless = self._send(batch[middle:])
        return first + second, hopeless

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def raise_for_failures(results: Iterable[Result]) -> None:
    """Raise the first failure among the results of `publish_many`, if there is one."""
    for result in results:
        if isinstance(result, Failed):
            raise result.error


def _encoded(events: Iterable[Event], results: dict[int, Result]) -> Iterator[Encoded]:
    """Those that can be sent; what cannot has its result at once."""
    for position, event in enumerate(events):
        try:
            yield encode(event, position)
        except errors.Invalid as error:
            results[position] = Failed(error.external_id or "", error)


def _results(answer: dict[str, Any], batch: Sequence[Encoded]) -> list[Result]:
    given = answer.get("results")
    if not isinstance(given, list) or len(given) != len(batch):
        raise errors.UnexpectedAnswer(f"the hub's answer does not have a result for each of {len(batch)} events")
    places = (f"events[{index}]." for index in range(len(batch)))
    return [_result(*each) for each in zip(given, batch, places, strict=True)]


def _result(given: Any, event: Encoded, place: str) -> Result:
    status = given.get("status") if isinstance(given, dict) else None
    if status in (200, 201):
        return _published(given, event, status == 201)
    problem = given.get("problem") if isinstance(given, dict) else None
    error = as_error(int(status or 0), problem if isinstance(problem, dict) else {}, place)
    error.external_id = event.external_id
    return Failed(event.external_id, error)


def _published(given: dict[str, Any], event: Encoded, created: bool) -> Published:
    if "uid" not in given:
        raise errors.UnexpectedAnswer("the hub's answer has no uid; is the address right?")
    return Published(str(given["uid"]), event.external_id, str(given.get("correlation_id", "")), created)


def _all_failed(batch: Sequence[Encoded], error: HubError) -> list[Result]:
    return [Failed(event.external_id, error) for event in batch]
