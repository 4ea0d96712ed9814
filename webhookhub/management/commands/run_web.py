import gc
import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.db import denied, ingest
from webhookhub.logs import Log, log

WRONG_OPTION = 2  # as argparse exits
ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


class Command(BaseCommand):
    help = "Serves the console and the API. Any other WSGI server can serve webhookhub.wsgi instead."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", metavar="HOST:PORT", help="such as 127.0.0.1:8000")

    def handle(self, *args: Any, **options: Any) -> None:
        address = check_address(options["address"])
        ingest.require_same_database()
        # Loaded after the checks: it takes seconds.
        from webhookhub.web_server import WebServer
        from webhookhub.wsgi import application

        try:
            server = WebServer(application, address)
        except OSError as error:
            raise CommandError(f"The web server cannot use the address {address}: {error}.") from None
        denied.log_missing_ingest_user()
        ingest.share_connection()
        # What was loaded stays: the garbage collector need not look at it again.
        gc.collect()
        gc.freeze()
        server.run()
        log(Log.PROCESS_STOPPED, process="web")


def check_address(address: str, option: str = "The address") -> str:
    match = ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise CommandError(
            f"{option} must be a host and a port, such as 127.0.0.1:8000, not {address!r}.", returncode=WRONG_OPTION
        )
    return address
