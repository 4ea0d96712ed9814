"""One request to a server that the operator's settings name, such as the provider of single sign-on.

Its address is not judged, because no user can choose it. Otherwise it is as strict as deliveries: no redirects, no
proxy of the environment, certificates are verified, and time and size are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlencode

import certifi
import pycurl

from webhookhub.conf import hub

SECONDS = 10
MAX_BYTES = 1024 * 1024


class FetchFailed(Exception):
    """There was no response."""


class Fetched(NamedTuple):
    status: int
    body: bytes


def fetch(url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Fetched:
    """A GET, or a POST of the form."""
    body = BytesIO()

    def write(data: bytes) -> int | None:
        if body.tell() + len(data) > MAX_BYTES:
            return 0  # libcurl ends the transfer
        body.write(data)
        return None

    lines = [f"{name}: {value}" for name, value in {"Accept": "application/json", **(headers or {})}.items()]
    options: list[tuple[int, Any]] = [
        (pycurl.URL, url),
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTPS | pycurl.PROTO_HTTP),
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.PROXY, ""),
        (pycurl.NETRC, pycurl.NETRC_IGNORED),
        (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
        (pycurl.SSL_VERIFYPEER, 1),
        (pycurl.SSL_VERIFYHOST, 2),
        (pycurl.CAINFO, hub().ca_bundle or certifi.where()),
        (pycurl.TIMEOUT, SECONDS),
        (pycurl.NOSIGNAL, 1),
        (pycurl.HTTPHEADER, lines),
        (pycurl.WRITEFUNCTION, write),
    ]
    if form is not None:
        options.append((pycurl.POSTFIELDS, urlencode(form)))
    handle = pycurl.Curl()
    try:
        for option, value in options:
            handle.setopt(option, value)
        handle.perform()
        return Fetched(handle.getinfo(pycurl.RESPONSE_CODE), body.getvalue())
    except pycurl.error as error:
        raise FetchFailed(str(error.args[-1])) from None
    finally:
        handle.close()
