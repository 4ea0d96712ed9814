"""A name server on loopback, and a child process that uses it instead of the system's.

Every name leads to 127.0.0.1, except: `hang…` gets no response, `unknown…` does not exist, `fail…` is a server failure.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

from webhookhub import logs
from webhookhub.egress.dns import Lookup, Resolver

NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3
TYPE_A = 1
ADDRESS = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + socket.inet_aton("127.0.0.1")


class NameServer:
    """Answers on port 53 of its own loopback address, which needs privileges: OSError without them."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The test process's own address: others may run at the same time.
        pid = threading.get_native_id()
        self.address = f"127.{1 + pid // 65536 % 250}.{pid // 256 % 256}.{1 + pid % 250}"
        self._socket.bind((self.address, 53))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"", (self.address, 53))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if not query:
                return
            end = query.index(b"\0", 12)
            first_label = query[13 : 13 + query[12]].decode()
            question = query[12 : end + 5]
            if first_label.startswith("hang"):
                continue
            code = NO_ERROR
            if first_label.startswith("unknown"):
                code = NO_SUCH_NAME
            elif first_label.startswith("fail"):
                code = SERVER_FAILURE
            found = code == NO_ERROR and int.from_bytes(query[end + 1 : end + 3], "big") == TYPE_A
            head = query[:2] + bytes([0x81, 0x80 | code]) + b"\0\1" + bytes([0, found]) + bytes(4)
            self._socket.sendto(head + question + (ADDRESS if found else b""), client)


def look_up(server: NameServer, folder: Path, names: list[str]) -> dict[str, str]:
    """What a resolver in a process of its own finds, by name. Raises OSError where a process may not do that."""
    config = folder / "resolv.conf"
    config.write_text(f"nameserver {server.address}\noptions timeout:20 attempts:1\n")
    # In a mount namespace of its own: no other process sees this file.
    shell = 'mount --bind "$0" /etc/resolv.conf || exit 77; exec "$@"'
    child = [sys.executable, "-m", "tests.support.name_server", *names]
    command = ["unshare", "--mount", "sh", "-c", shell, str(config), *child]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        raise OSError(done.stderr)
    done.check_returncode()
    found: dict[str, str] = json.loads(done.stdout)
    return found


def main(names: list[str]) -> None:
    logs.configure("INFO", "json")  # to standard error
    resolver = Resolver()
    lookups = [resolver.lookup(name) for name in names]
    for lookup in lookups:
        if not lookup.host.startswith("hang"):
            lookup.finished.wait(10)
    sys.stdout.write(json.dumps({lookup.host: _state(lookup) for lookup in lookups}))


def _state(lookup: Lookup) -> str:
    if lookup.answer is not None:
        return ",".join(lookup.answer.addresses)
    if not lookup.finished.is_set():
        return "hanging"
    return "denied" if lookup.denied else "failed"


if __name__ == "__main__":
    main(sys.argv[1:])
