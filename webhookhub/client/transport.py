"""One request to the hub, with retries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from . import errors
from .errors import FieldError, HubError
from .retry import Deadline, parse_retry_after

BY_STATUS: dict[int, type[HubError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.Invalid,
    429: errors.RateLimited,
}
# 502 and 504 come from a proxy; the hub responds with 503 while its database is unreachable.
RETRIED = {429, 502, 503, 504}


class Bearer(AuthBase):
    """Passed as `auth`: a .netrc file would silently replace a plain header."""

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

    def post(self, path: str, body: bytes, deadline: Deadline) -> dict[str, Any]:
        return self.send("POST", path, body, deadline)

    def send(
        self, method: str, path: str, body: bytes, deadline: Deadline, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The JSON document of a successful response; raises a HubError otherwise."""
        while True:
            retry_after = None
            try:
                response = self._session.request(
                    method,
                    self._url + path,
                    data=body,
                    headers={"Content-Type": "application/json", **(headers or {})},
                    auth=self._auth,
                    timeout=max(0.05, min(self._timeout, deadline.left)),
                    verify=self._verify,
                    # A redirect could turn the POST into a GET and send the key elsewhere.
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                failure: HubError = errors.Unavailable(f"the hub could not be reached: {error}")
                if not _is_transient(error):
                    raise failure from error
            else:
                if response.status_code < 300:
                    return _document(response)
                failure = as_error(response.status_code, _problem(response))
                if response.status_code not in RETRIED:
                    raise failure
                retry_after = parse_retry_after(response.headers.get("Retry-After"))
                if isinstance(failure, errors.RateLimited):
                    failure.retry_after = retry_after
            if not deadline.wait(retry_after):
                raise failure

    def close(self) -> None:
        self._session.close()


def _is_transient(error: requests.RequestException) -> bool:
    """Whether a retry may help; it does not for an untrusted certificate."""
    transient = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(error, transient) and not isinstance(error, requests.exceptions.SSLError)


def as_error(status: int, problem: Mapping[str, Any], place: str = "") -> HubError:
    """The error of a problem document, of a response or of one event in a batch. `place`, the position of the event in
    the request, is removed from the messages."""
    kind = BY_STATUS.get(status, errors.Unavailable if status >= 500 else errors.UnexpectedResponse)
    fields = [
        FieldError(str(item.get("field", "")).removeprefix(place), str(item.get("message", "")))
        for item in problem.get("errors") or ()
        if isinstance(item, dict)
    ]
    message = problem.get("detail") or problem.get("title") or "no reason given"
    error = kind(f"{str(message).removeprefix(place)} (status {status})", status=status, errors=fields)
    if isinstance(error, errors.Conflict):
        error.uid = problem.get("uid")
    return error


def _document(response: requests.Response) -> dict[str, Any]:
    document = _json(response)
    if document is None:
        raise errors.UnexpectedResponse(
            f"the response of {response.url} is not that of a hub; is the URL right?", status=response.status_code
        )
    return document


def _problem(response: requests.Response) -> dict[str, Any]:
    """The problem document; a proxy may respond with anything."""
    document = _json(response)
    return {"detail": f"{response.url} responded: {response.reason}"} if document is None else document


def _json(response: requests.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
