import gc
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.conf import ADDRESS, hub, variable
from webhookhub.db import denied, ingest
from webhookhub.logs import Log, log

T = TypeVar("T")
PROBE_SERVER = "webhookhub.stats.probe_server"  # by name, as in wsgi.py
WRONG_OPTION = 2  # as argparse exits


class Command(BaseCommand):
    help = "Serves the console and the API. Any other WSGI server can serve webhookhub.wsgi instead."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", metavar="HOST:PORT", help="such as 127.0.0.1:8000")
        add_probes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        address = check_address(options["address"])
        probes = check_probes(options["probes"], address)
        ingest.require_same_database()
        # Loaded after the checks: it takes seconds.
        from webhookhub.web_server import WebServer
        from webhookhub.wsgi import application

        server = _listening(address, lambda: WebServer(application, address))
        if probes:
            server.handle_signals()  # before a probe can say that it is alive
            probe_server = import_module(PROBE_SERVER)
            _listening(probes, lambda: probe_server.ProbeServer(probes, lambda: server.last_turn)).start()
        denied.log_missing_ingest_user()
        ingest.share_connection()
        # What was loaded stays: the garbage collector need not look at it again.
        gc.collect()
        gc.freeze()
        server.run()
        log(Log.PROCESS_STOPPED, process="web")


def _listening(address: str, listen: Callable[[], T]) -> T:
    try:
        return listen()
    except OSError as error:
        raise CommandError(f"The web server cannot use the address {address}: {error}.") from None


def add_probes(parser: CommandParser) -> None:
    parser.add_argument(
        "--probes",
        metavar="HOST:PORT",
        default=hub().probes,
        help=f"also serve /healthz and /readyz at this address, whatever the web server does ({variable('probes')})",
    )


def check_probes(probes: str, address: str) -> str:
    """The address of the probes; empty for none."""
    if probes and probes == address:
        raise CommandError(
            f"--probes must be another address than that of the web server, not {probes!r}.", returncode=WRONG_OPTION
        )
    return check_address(probes, "--probes") if probes else ""


def check_address(address: str, option: str = "The address") -> str:
    match = ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise CommandError(
            f"{option} must be a host and a port, such as 127.0.0.1:8000, not {address!r}.", returncode=WRONG_OPTION
        )
    return address
