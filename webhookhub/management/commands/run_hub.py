import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.checks import HUB
from webhookhub.conf import INGEST_DATABASE_URL, KINDS, PROCESS_DATABASE_URLS, hub
from webhookhub.logs import Log, log
from webhookhub.runner.supervisor import Child, Supervisor

from .run_web import WRONG_OPTION, check_address

STOP_MARGIN_SECONDS = 10.0


class Command(BaseCommand):
    help = (
        "Runs the whole hub on one machine: every loop (and with --web the web server) under one supervisor. "
        f"Each kind of process can have its own database user: {', '.join(PROCESS_DATABASE_URLS.values())}; the web "
        f"server another one to store events: {INGEST_DATABASE_URL}."
    )
    requires_system_checks = [HUB]

    def add_arguments(self, parser: CommandParser) -> None:
        for kind in KINDS:
            parser.add_argument(f"--{_plural(kind)}", type=int, default=1, metavar="N", help=f"{kind} processes (1)")
        parser.add_argument("--web", metavar="HOST:PORT", help="also serve the console and the API at this address")

    def handle(self, *args: Any, **options: Any) -> None:
        children = []
        for kind in KINDS:
            count = options[_plural(kind)]
            if not 0 <= count <= 64:
                raise CommandError(
                    f"--{_plural(kind)} must be a number from 0 to 64, not {count}.", returncode=WRONG_OPTION
                )
            children += [_loop(kind, index) for index in range(1, count + 1)]
        address = options["web"]
        if address is not None:
            children.append(web_server(check_address(address, "--web")))
        _require_one_database({child.name.split()[0] for child in children})
        names = ", ".join(child.name for child in children)
        log(Log.PROCESS_STARTED, process="hub", children=names, serves=address and f"http://{address}/")
        code = Supervisor(children, hub().drain.total_seconds() + STOP_MARGIN_SECONDS).run()
        if code:
            raise CommandError("The hub cannot run like this; the lines above say why.", returncode=code)


def _loop(kind: str, index: int) -> Child:
    return Child(f"{kind} {index}", [*_program(), f"run_{kind}"], _environment(kind))


def web_server(address: str) -> Child:
    return Child("web", [*_program(), "run_web", address], _environment("web"))


def _program() -> list[str]:
    manage = settings.BASE_DIR / "manage.py"
    return [sys.executable, *([str(manage)] if manage.exists() else ["-m", "webhookhub.command_line"])]


def _plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


def _environment(kind: str) -> dict[str, str]:
    """With the kind's own DATABASE_URL if it has one, and without the URLs of the others: they contain passwords."""
    own = os.environ.get(PROCESS_DATABASE_URLS[kind])
    # Emptied, not removed: a child also reads the file .env, which sets missing variables.
    others = [*PROCESS_DATABASE_URLS.values(), *([] if kind == "web" else [INGEST_DATABASE_URL])]
    environment = {**os.environ, **dict.fromkeys(others, "")}
    return {**environment, "DATABASE_URL": own} if own else environment


def _require_one_database(kinds: set[str]) -> None:
    """Without DATABASE_URL a process uses the embedded database, which the others would not share."""
    own = {kind for kind in kinds if os.environ.get(PROCESS_DATABASE_URLS[kind])}
    if settings.EMBEDDED and own and own != kinds:
        names = ", ".join(PROCESS_DATABASE_URLS[kind] for kind in sorted(kinds - own))
        raise CommandError(
            f"Some processes have a database URL of their own and others none: set DATABASE_URL, or {names}.",
            returncode=os.EX_CONFIG,
        )
