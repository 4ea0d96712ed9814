"""The error codes of failed attempts, for the tables, the logs, the console and the documentation."""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

TIMEOUT = "timeout"
DNS_ERROR = "dns_error"
CONNECT_ERROR = "connect_error"
TLS_ERROR = "tls_error"
BLOCKED_ADDRESS = "blocked_address"
REDIRECT = "redirect"
RESPONSE_TOO_LARGE = "response_too_large"
PROTOCOL_ERROR = "protocol_error"
CONNECTION_LOST = "connection_lost"
LEASE_EXPIRED = "lease_expired"
SIGNING_ERROR = "signing_error"
INVALID_REQUEST = "invalid_request"

MEANING = {
    TIMEOUT: _("the endpoint did not respond in time"),
    DNS_ERROR: _("the endpoint's name could not be resolved"),
    CONNECT_ERROR: _("no connection to the endpoint could be made"),
    TLS_ERROR: _("the endpoint's certificate or TLS version was not accepted"),
    BLOCKED_ADDRESS: _("the endpoint's address may not be reached from this hub"),
    REDIRECT: _("the endpoint responded with a redirect (redirects are not followed)"),
    RESPONSE_TOO_LARGE: _("the endpoint's response was too large"),
    PROTOCOL_ERROR: _("the endpoint's response was not valid HTTP"),
    CONNECTION_LOST: _("the connection broke before the response was complete"),
    LEASE_EXPIRED: _("workers that took this attempt stopped responding, too often to try again"),
    SIGNING_ERROR: _("the delivery could not be signed: the encryption keys do not open the stored secret"),
    INVALID_REQUEST: _("the stored address or headers cannot be sent"),
}


def http_code(status: int) -> str | None:
    """The error code of a response status; None for 2xx."""
    if 200 <= status < 300:
        return None
    return REDIRECT if 300 <= status < 400 else f"http_{status}"


def describe(code: str) -> str:
    """The meaning of a code in the current language; an unknown code is returned unchanged."""
    if code.startswith("http_"):
        return gettext("the endpoint responded with %(status)s") % {"status": code.removeprefix("http_")}
    return gettext(MEANING[code]) if code in MEANING else code
