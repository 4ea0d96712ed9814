"""Removes the endpoint's secrets from its responses before they are stored."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from urllib.parse import quote, quote_plus

from webhookhub import crypto
from webhookhub.conf import hub
from webhookhub.egress.messages import snippet
from webhookhub.egress.urls import query_values

from . import credentials, headers
from .signing import Endpoint

MASK = "•••"
# A shorter value is an ordinary word; hiding it would make holes in every response.
SHORTEST = 4
# The same for the values of the URL's query (`json`, `2024`).
SHORTEST_QUERY_VALUE = 8
# Bytes of a response that are searched for secrets: enough for a header value that starts where the snippet ends.
SEARCHED_BYTES = 32 * 1024


def response_snippet(endpoint: Endpoint, body: bytes, token: str = "") -> str:
    """The start of a response: bounded, printable, and without the endpoint's secrets and the OAuth2 token."""
    text = body[:SEARCHED_BYTES].decode("utf-8", errors="replace")
    if token:
        for form in sorted(set(_forms(token)), key=len, reverse=True):
            text = text.replace(form, MASK)
    return snippet(redact(endpoint, text))


def redact(endpoint: Endpoint, text: str) -> str:
    """The text without the endpoint's signing secrets, header values and long query values. Never raises."""
    if text:
        for form in _secret_forms(endpoint, hub().encryption_keys):
            text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=2000)
def _secret_forms(endpoint: Endpoint, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Each secret value in all its forms; longest first, so that no form leaves a rest."""
    values = headers.values(_decrypt_or_empty(endpoint.custom_headers))
    # `Bearer x` and `Basic x`: a response may repeat x alone.
    values += [credentials for value in values for credentials in value.split(maxsplit=1)[1:]]
    for secret in (_decrypt_or_empty(endpoint.secret), _decrypt_or_empty(endpoint.previous_secret)):
        values += [secret, secret.partition("_")[2], secret.partition("_")[2].rstrip("=")]
    with suppress(credentials.Unreadable):
        client = credentials.parse(endpoint.credentials).oauth2
        values += [client.client_secret] if client is not None else []
    values += [value for value in query_values(endpoint.callback_url) if len(value) >= SHORTEST_QUERY_VALUE]
    forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(value: str) -> Iterable[str]:
    """The value as it is, and as URLs, JSON and HTML write it."""
    in_json = json.dumps(value)[1:-1]
    return (
        value,
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        in_json,
        in_json.replace("/", "\\/"),  # as PHP writes it
        json.dumps(value, ensure_ascii=False)[1:-1],
        html.escape(value),
    )


def _decrypt_or_empty(token: str) -> str:
    try:
        return crypto.decrypt(token) if token else ""
    except (crypto.Undecipherable, ValueError):  # a key is missing; there are no keys; it is not even text
        return ""
