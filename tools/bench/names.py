"""Host names that resolve to this machine, and names whose lookup hangs, for the processes of a hub.

Python imports `sitecustomize` from PYTHONPATH when it starts: the hub's own code is unchanged.
"""

from __future__ import annotations

from pathlib import Path

DOMAIN = "bench.test"
HANG_SECONDS = 30.0
SITE = f"""
import socket, time

_getaddrinfo = socket.getaddrinfo

def getaddrinfo(host, *arguments, **options):
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name.endswith(".{DOMAIN}"):
        if name.startswith("hang-"):
            time.sleep({HANG_SECONDS})
            raise socket.gaierror(socket.EAI_AGAIN, "the name server does not respond")
        host = "127.0.0.1"
    return _getaddrinfo(host, *arguments, **options)

socket.getaddrinfo = getaddrinfo
"""


def write(folder: Path) -> dict[str, str]:
    """Writes the module into a folder of its own; returns the environment of a process that uses it."""
    own = folder / "names"
    own.mkdir(exist_ok=True)
    (own / "sitecustomize.py").write_text(SITE)
    return {"PYTHONPATH": str(own)}
