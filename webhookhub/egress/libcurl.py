"""The required version of libcurl, and the error codes of its errors."""

from __future__ import annotations

import re

import pycurl

from . import error_codes

# The first version that reads a request's body before it sends anything; 8.4.0 limits the total size of headers.
MIN_VERSION = (8, 7, 0)

# CURLE_HTTP2_STREAM, which pycurl does not name. libcurl reports an invalid response with the same code as a stream
# that the endpoint has reset; only the message differs.
HTTP2_STREAM = 92
RESET_BY_ENDPOINT = re.compile("reset by server|not closed cleanly|closed cleanly, but before")

# The alerts by which an endpoint refuses a client certificate, in OpenSSL's words.
CERTIFICATE_ALERT = re.compile(
    "alert (bad certificate|unsupported certificate|certificate (required|revoked|expired|unknown)|unknown ca)"
)

# In TLS 1.3 the alert arrives after the handshake, and is lost if the request is sent at the same time. Then it is only
# known that the endpoint has asked for a certificate, from libcurl's trace of the handshake.
REQUEST_FOR_CERTIFICATE = b"Request CERT"
LOST_WHILE_SENDING = (pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR)
# libcurl cannot use the client certificate that it was given.
UNUSABLE_CERTIFICATE = (pycurl.E_SSL_CERTPROBLEM, pycurl.E_BAD_FUNCTION_ARGUMENT)

CODES = {
    pycurl.E_OPERATION_TIMEDOUT: error_codes.TIMEOUT,
    pycurl.E_COULDNT_RESOLVE_HOST: error_codes.DNS_ERROR,
    pycurl.E_COULDNT_CONNECT: error_codes.CONNECT_ERROR,
    pycurl.E_SSL_CONNECT_ERROR: error_codes.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: error_codes.TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: error_codes.TLS_ERROR,
    pycurl.E_SSL_CERTPROBLEM: error_codes.TLS_ERROR,
    pycurl.E_SSL_CIPHER: error_codes.TLS_ERROR,
    pycurl.E_GOT_NOTHING: error_codes.CONNECTION_LOST,
    pycurl.E_RECV_ERROR: error_codes.CONNECTION_LOST,
    pycurl.E_SEND_ERROR: error_codes.CONNECTION_LOST,
    pycurl.E_PARTIAL_FILE: error_codes.CONNECTION_LOST,
    # libcurl would have sent the request again.
    pycurl.E_SEND_FAIL_REWIND: error_codes.CONNECTION_LOST,
    pycurl.E_READ_ERROR: error_codes.CONNECTION_LOST,
    # Closed by the endpoint, or by libcurl after an invalid frame.
    pycurl.E_HTTP2: error_codes.CONNECTION_LOST,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: error_codes.PROTOCOL_ERROR,
    # Of the response; a URL of another scheme is refused earlier.
    pycurl.E_UNSUPPORTED_PROTOCOL: error_codes.PROTOCOL_ERROR,
    pycurl.E_URL_MALFORMAT: error_codes.INVALID_REQUEST,
    pycurl.E_WRITE_ERROR: error_codes.RESPONSE_TOO_LARGE,  # _write() refuses bytes beyond the limit
    100: error_codes.RESPONSE_TOO_LARGE,  # CURLE_TOO_LARGE, which pycurl does not name: an endless header line
}


def error_code(curl_code: int, message: str) -> str:
    if curl_code == HTTP2_STREAM and RESET_BY_ENDPOINT.search(message):
        return error_codes.CONNECTION_LOST
    return CODES.get(curl_code, error_codes.PROTOCOL_ERROR)


def client_certificate_code(curl_code: int, message: str, *, sent: bool, requested: bool) -> str | None:
    """The error code, if the request failed because of its client certificate, or because it has none."""
    if sent and curl_code in UNUSABLE_CERTIFICATE:
        return error_codes.CREDENTIALS_ERROR
    if CERTIFICATE_ALERT.search(message) or (requested and curl_code in LOST_WHILE_SENDING):
        return error_codes.CLIENT_CERTIFICATE_REFUSED if sent else error_codes.CLIENT_CERTIFICATE_REQUIRED
    return None


def version() -> tuple[int, ...]:
    return tuple(int(part) for part in pycurl.version_info()[1].split("-")[0].split("."))
