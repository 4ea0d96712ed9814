import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.checks import HUB
from webhookhub.conf import KINDS, PROCESS_DATABASE_URLS, hub
from webhookhub.runner.supervisor import Child, Supervisor

STOP_MARGIN_SECONDS = 10.0
WEB_THREADS = "32"


class Command(BaseCommand):
    help = (
        "Runs the whole hub on one machine: every loop (and, if asked, the web server) under one supervisor. "
        f"Each kind of process can have a database user of its own: {', '.join(PROCESS_DATABASE_URLS.values())}."
    )
    requires_system_checks = [HUB]

    def add_arguments(self, parser: CommandParser) -> None:
        for kind in KINDS:
            parser.add_argument(f"--{_plural(kind)}", type=int, default=1, metavar="N", help=f"{kind} processes (1)")
        parser.add_argument("--web", metavar="HOST:PORT", help="also serve the console there")

    def handle(self, *args: Any, **options: Any) -> None:
        children = []
        for kind in KINDS:
            count = options[_plural(kind)]
            if not 0 <= count <= 64:
                raise CommandError(f"--{_plural(kind)} must be a number from 0 to 64, not {count}.")
            children += [self._loop(kind, number) for number in range(1, count + 1)]
        if options["web"]:
            children.append(self._web(options["web"]))
        _refuse_two_databases({child.name.split()[0] for child in children})
        code = Supervisor(children, hub().drain.total_seconds() + STOP_MARGIN_SECONDS).run()
        if code:
            raise CommandError("The hub cannot run like this; the lines above say why.", returncode=code)

    def _loop(self, kind: str, number: int) -> Child:
        manage = str(settings.BASE_DIR / "manage.py")
        return Child(f"{kind} {number}", [sys.executable, manage, f"run_{kind}"], _environment(kind))

    def _web(self, address: str) -> Child:
        # Threads mostly wait: for the database, and for endpoints that are being verified or tested.
        command = [sys.executable, "-m", "gunicorn", "webhookhub.wsgi", "--bind", address, "--threads", WEB_THREADS]
        return Child(
            "web", [*command, "--chdir", str(settings.BASE_DIR), "--log-level", "warning"], _environment("web")
        )


def _plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


def _environment(kind: str) -> dict[str, str]:
    """With the kind's own DATABASE_URL, if it has one, and nobody else's: a process knows no password but its own."""
    own = os.environ.get(PROCESS_DATABASE_URLS[kind])
    # Emptied and not left out: a child reads the file .env too, which fills in what is not there.
    environment = {**os.environ, **dict.fromkeys(PROCESS_DATABASE_URLS.values(), "")}
    return {**environment, "DATABASE_URL": own} if own else environment


def _refuse_two_databases(kinds: set[str]) -> None:
    """Without DATABASE_URL a process takes the embedded database, which would not be that of the others."""
    own = {kind for kind in kinds if os.environ.get(PROCESS_DATABASE_URLS[kind])}
    if settings.EMBEDDED and own and own != kinds:
        names = ", ".join(PROCESS_DATABASE_URLS[kind] for kind in sorted(kinds - own))
        raise CommandError(
            f"Some processes have a database of their own and others none: set DATABASE_URL, or {names}."
        )
