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
CLIENT_CERTIFICATE_REQUIRED = "client_certificate_required"
CLIENT_CERTIFICATE_REFUSED = "client_certificate_refused"
CREDENTIALS_ERROR = "credentials_error"
TOKEN_REFUSED = "token_refused"  # noqa: S105
TOKEN_INVALID = "token_invalid"  # noqa: S105
TOKEN_UNREACHABLE = "token_unreachable"  # noqa: S105
PROXY_UNREACHABLE = "proxy_unreachable"
PROXY_TLS_ERROR = "proxy_tls_error"
PROXY_AUTH_ERROR = "proxy_auth_error"
PROXY_REFUSED = "proxy_refused"
PROXY_TIMEOUT = "proxy_timeout"
PROXY_ERROR = "proxy_error"
ABANDONED = "abandoned"

MEANING = {
    TIMEOUT: _("the endpoint did not respond in time"),
    DNS_ERROR: _("the endpoint's host name could not be resolved"),
    CONNECT_ERROR: _("the hub could not connect to the endpoint"),
    TLS_ERROR: _("the endpoint's certificate or TLS version was not accepted"),
    BLOCKED_ADDRESS: _("the hub is not allowed to connect to the endpoint's address"),
    REDIRECT: _("the endpoint responded with a redirect (redirects are not followed)"),
    RESPONSE_TOO_LARGE: _("the response was too large"),
    PROTOCOL_ERROR: _("the response was not valid HTTP"),
    CONNECTION_LOST: _("the connection was closed before the response was complete"),
    LEASE_EXPIRED: _("too many workers stopped while sending this attempt"),
    SIGNING_ERROR: _("the request could not be signed: no encryption key decrypts the stored secret"),
    INVALID_REQUEST: _("the stored URL or headers are not valid"),
    CLIENT_CERTIFICATE_REQUIRED: _("the endpoint requires a client certificate, and the subscription has none"),
    CLIENT_CERTIFICATE_REFUSED: _("the endpoint did not accept the subscription's client certificate"),
    CREDENTIALS_ERROR: _("the stored client certificate or OAuth2 client cannot be decrypted or used"),
    TOKEN_REFUSED: _("the OAuth2 token server did not give the hub a token"),
    TOKEN_INVALID: _("the response of the OAuth2 token server contains no usable token"),
    TOKEN_UNREACHABLE: _("the OAuth2 token server could not be reached, or failed"),
    PROXY_UNREACHABLE: _("the hub could not connect to its forward proxy"),
    PROXY_TLS_ERROR: _("the certificate or TLS version of the hub's forward proxy was not accepted"),
    PROXY_AUTH_ERROR: _("the hub's forward proxy did not accept the hub's user name and password"),
    PROXY_REFUSED: _("the hub's forward proxy did not connect to the endpoint"),
    PROXY_TIMEOUT: _("the hub's forward proxy did not connect to the endpoint in time"),
    PROXY_ERROR: _("the hub's forward proxy closed the connection without a response"),
    ABANDONED: _("a person has abandoned the delivery"),
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
