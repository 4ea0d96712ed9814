"""The web server, started as run_hub starts it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from webhookhub.management.commands.run_hub import web_server


def main(arguments: Sequence[str]) -> None:
    """`arguments`: the address to listen on."""
    [address] = arguments
    child = web_server(address)
    os.execve(child.command[0], list(child.command), dict(child.environment))
