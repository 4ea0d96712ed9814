"""`python -m tools.demo.receiver`: an HTTPS endpoint that prints what it receives and responds to the verification.

It creates its own certificate. The hub trusts it with WEBHOOKHUB_CA_BUNDLE=FOLDER/authority.pem.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tools.demo import certificates
from tools.demo.endpoint import HttpsEndpoint, Received, Reply


def show(received: Received) -> Reply:
    sys.stdout.write(f"{received.path} {received.event_uid} attempt {received.attempt}: {received.body.decode()}\n")
    sys.stdout.flush()
    return Reply()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.demo.receiver", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--name", default="localhost", help="the host name in the certificate")
    parser.add_argument("--certificates", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    server = options.certificates / certificates.SERVER
    if not server.exists():
        certificates.write(options.certificates, (options.name, "localhost", "127.0.0.1"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with HttpsEndpoint(server, show, options.port, options.host):
        sys.stdout.write(f"Listening on https://{options.name}:{options.port}/\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
