import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.conf import hub
from webhookhub.runner.supervisor import Child, Supervisor

STOP_MARGIN_SECONDS = 10.0


class Command(BaseCommand):
    help = "Runs the whole hub on one machine: every loop (and, if asked, the web server) under one supervisor."

    def add_arguments(self, parser: CommandParser) -> None:
        for kind in ("router", "orchestrator", "worker", "cleaner"):
            parser.add_argument(f"--{kind}s", type=int, default=1, metavar="N", help=f"{kind} processes (1)")
        parser.add_argument("--web", metavar="HOST:PORT", help="also serve the console there")

    def handle(self, *args: Any, **options: Any) -> None:
        children = []
        for kind in ("router", "orchestrator", "worker", "cleaner"):
            count = options[f"{kind}s"]
            if not 0 <= count <= 64:
                raise CommandError(f"--{kind}s must be a number from 0 to 64, not {count}.")
            children += [self._loop(kind, number) for number in range(1, count + 1)]
        if options["web"]:
            children.append(self._web(options["web"]))
        code = Supervisor(children, hub().drain.total_seconds() + STOP_MARGIN_SECONDS).run()
        if code:
            raise CommandError("The hub cannot run like this; the lines above say why.", returncode=code)

    def _loop(self, kind: str, number: int) -> Child:
        manage = str(settings.BASE_DIR / "manage.py")
        return Child(f"{kind} {number}", [sys.executable, manage, f"run_{kind}"], os.environ)

    def _web(self, address: str) -> Child:
        command = [sys.executable, "-m", "gunicorn", "webhookhub.wsgi", "--bind", address, "--threads", "4"]
        return Child("web", [*command, "--chdir", str(settings.BASE_DIR), "--log-level", "warning"], os.environ)
