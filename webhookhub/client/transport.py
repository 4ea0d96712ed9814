"""One request to the hub, tried again while that can help and there is time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from . import errors
from .errors import FieldError, HubError
from .retry import Patience, retry_after

BY_STATUS: dict[int, type[HubError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.Invalid,
    429: errors.RateLimited,
}
# Whoever stands before the hub says these; the hub itself says 503 while its database is away.
PASSING = {502, 503, 504}


class Bearer(AuthBase):
    """Given as `auth`, because a .netrc file would silently replace a mere header."""

    def __init__(self, key: str) -> None:
        self._header = f"Bearer {key}"

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._header
        return request


class Transport:
    def __init__(self, url: str, key: str, timeout: float, verify: bool | str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"url must be the hub's address, such as https://hub.example.com, not {url!r}")
        if not key.isascii() or not key.isprintable() or not key.strip():
            raise ValueError("key must be an API key, such as whk_…")
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._verify = verify
        self._auth = Bearer(key.strip())
        self._session = requests.Session()

    def post(self, path: str, body: bytes, patience: Patience) -> dict[str, Any]:
        """The answer's document; a HubError unless the answer is a success."""
        while True:
            asked = None
            try:
                answer = self._session.post(
                    self._url + path,
                    data=body,
                    headers={"Content-Type": "application/json"},
                    auth=self._auth,
                    timeout=max(0.05, min(self._timeout, patience.left)),
                    verify=self._verify,
                    # Followed, a POST may become a GET, and the key go elsewhere.
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                failure: HubError = errors.Unavailable(f"the hub could not be reached: {error}")
                if not _passes(error):
                    raise failure from error
            else:
                if answer.status_code < 300:
                    return _document(answer)
                failure = as_error(answer.status_code, _problem(answer))
                if answer.status_code not in PASSING and answer.status_code != 429:
                    raise failure
                asked = retry_after(answer.headers.get("Retry-After"))
                if isinstance(failure, errors.RateLimited):
                    failure.retry_after = asked
            if not patience.wait(asked):
                raise failure

    def close(self) -> None:
        self._session.close()


def _passes(error: requests.RequestException) -> bool:
    """Whether another try may fare better. A certificate does not become trusted by asking again."""
    passing = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(error, passing) and not isinstance(error, requests.exceptions.SSLError)


def as_error(status: int, problem: Mapping[str, Any], place: str = "") -> HubError:
    """The named error of a problem document, whether it is a whole answer or one item's result. `place` is that of the
    item in a request of which the caller knows nothing: left out, as the error belongs to the item."""
    kind = BY_STATUS.get(status, errors.Unavailable if status >= 500 else errors.UnexpectedAnswer)
    fields = [
        FieldError(str(each.get("field", "")).removeprefix(place), str(each.get("message", "")))
        for each in problem.get("errors") or ()
        if isinstance(each, dict)
    ]
    message = problem.get("detail") or problem.get("title") or "no reason was given"
    error = kind(f"{str(message).removeprefix(place)} (status {status})", status=status, errors=fields)
    if isinstance(error, errors.Conflict):
        error.uid = problem.get("uid")
    return error


def _document(answer: requests.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise errors.UnexpectedAnswer(
            f"the answer of {answer.url} is not that of a hub; is the address right?", status=answer.status_code
        )
    return document


def _problem(answer: requests.Response) -> dict[str, Any]:
    """What the hub says is wrong; whatever stands before it may answer with anything at all."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"detail": f"{answer.url} answered: {answer.reason}"}
