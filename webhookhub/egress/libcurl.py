"""The required version of libcurl, and the error codes of its errors."""

from __future__ import annotations

import pycurl

from . import errors

# The first version that reads a request's body before it sends anything; 8.4.0 limits the total size of headers.
MIN_VERSION = (8, 7, 0)

CODES = {
    pycurl.E_OPERATION_TIMEDOUT: errors.TIMEOUT,
    pycurl.E_COULDNT_RESOLVE_HOST: errors.DNS_ERROR,
    pycurl.E_COULDNT_CONNECT: errors.CONNECT_ERROR,
    pycurl.E_SSL_CONNECT_ERROR: errors.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: errors.TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: errors.TLS_ERROR,
    pycurl.E_SSL_CERTPROBLEM: errors.TLS_ERROR,
    pycurl.E_SSL_CIPHER: errors.TLS_ERROR,
    pycurl.E_GOT_NOTHING: errors.CONNECTION_LOST,
    pycurl.E_RECV_ERROR: errors.CONNECTION_LOST,
    pycurl.E_SEND_ERROR: errors.CONNECTION_LOST,
    pycurl.E_PARTIAL_FILE: errors.CONNECTION_LOST,
    # libcurl would have sent the request again.
    pycurl.E_SEND_FAIL_REWIND: errors.CONNECTION_LOST,
    pycurl.E_READ_ERROR: errors.CONNECTION_LOST,
    # Closed by the endpoint, or by libcurl after an invalid frame.
    pycurl.E_HTTP2: errors.CONNECTION_LOST,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: errors.PROTOCOL_ERROR,
    pycurl.E_UNSUPPORTED_PROTOCOL: errors.PROTOCOL_ERROR,  # of the response; a URL of another scheme is refused earlier
    pycurl.E_URL_MALFORMAT: errors.INVALID_REQUEST,
    pycurl.E_WRITE_ERROR: errors.RESPONSE_TOO_LARGE,  # _write() refuses bytes beyond the limit
    100: errors.RESPONSE_TOO_LARGE,  # CURLE_TOO_LARGE, which pycurl does not name: an endless header line
}


def version() -> tuple[int, ...]:
    return tuple(int(part) for part in pycurl.version_info()[1].split("-")[0].split("."))
