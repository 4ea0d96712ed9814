import gc
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.checks import HUB
from webhookhub.conf import INGEST_DATABASE_URL, KINDS, PROCESS_DATABASE_URLS, hub
from webhookhub.logs import Log, log
from webhookhub.runner.command import LoopCommand, run_loop
from webhookhub.runner.database import of_kinds
from webhookhub.runner.loop import Loop
from webhookhub.runner.managed_step import ManagedStep
from webhookhub.runner.supervisor import Child, ForkedChild, Supervisor, forget_variables

from .run_web import WRONG_OPTION, add_probes, check_address, check_probes

STOP_MARGIN_SECONDS = 10.0
# While a statement of one step waits, the other steps of its process wait, too: so long at most.
STATEMENT_SECONDS = 5
LOCK_SECONDS = 2


class Command(BaseCommand):
    help = (
        "Runs the whole hub on one machine: all steps in one process (and with --web the web server) under one "
        "supervisor. With more than one of a kind, each further one is a process of its own. Each kind can have its "
        f"own database user: {', '.join(PROCESS_DATABASE_URLS.values())}; the web server another one to store events: "
        f"{INGEST_DATABASE_URL}."
    )
    requires_system_checks = [HUB]

    def add_arguments(self, parser: CommandParser) -> None:
        for kind in KINDS:
            parser.add_argument(
                f"--{_plural(kind)}",
                type=int,
                default=1,
                metavar="N",
                help=f"{kind} steps (1): the first in the common process, each further one in its own; 0 for none",
            )
        parser.add_argument("--web", metavar="HOST:PORT", help="also serve the console and the API at this address")
        add_probes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        counts = {}
        for kind in KINDS:
            counts[kind] = options[_plural(kind)]
            if not 0 <= counts[kind] <= 64:
                raise CommandError(
                    f"--{_plural(kind)} must be a number from 0 to 64, not {counts[kind]}.", returncode=WRONG_OPTION
                )
        children = _loops(counts)
        kinds = {kind for kind in KINDS if counts[kind]}
        address, probes = options["web"], options["probes"]
        if address is not None:
            children.append(web_server(check_address(address, "--web"), check_probes(probes, address)))
            kinds.add("web")
        elif probes != hub().probes:
            raise CommandError("--probes needs --web: the web server serves them.", returncode=WRONG_OPTION)
        _require_one_database(kinds)
        names = ", ".join(child.name for child in children)
        log(Log.PROCESS_STARTED, process="hub", children=names, serves=address and f"http://{address}/")
        code = Supervisor(children, hub().drain.total_seconds() + STOP_MARGIN_SECONDS).run()
        if code:
            raise CommandError("The hub cannot run like this; the lines above say why.", returncode=code)


def _loops(counts: dict[str, int]) -> list[Child]:
    """One process with a step of each kind, and one process for each further step."""
    commands = {kind: loop_command(kind) for kind in KINDS if counts[kind]}
    common = list(commands.values())
    children: list[Child] = []
    if common:
        children.append(ForkedChild("hub", lambda: run_steps(common)))
    for kind, command in commands.items():
        for number in range(2, counts[kind] + 1):
            children.append(ForkedChild(f"{kind} {number}", partial(run_steps, [command])))
    # Not scanned again by the garbage collector, which would copy every page that the processes share.
    gc.collect()
    gc.freeze()
    return children


def loop_command(kind: str) -> LoopCommand:
    name = f"run_{kind}"
    command = load_command_class(str(get_commands()[name]), name)
    assert isinstance(command, LoopCommand)
    return command


def run_steps(commands: Sequence[LoopCommand]) -> int:
    """Runs the steps of these commands in this process until it is stopped. Returns the exit code."""
    own = [command.kind for command in commands]
    urls = {kind: os.environ.get(PROCESS_DATABASE_URLS[kind], "") for kind in own}
    databases = of_kinds(urls, own)
    forget_variables(_other_urls(urls))
    for database in set(databases.values()):
        database.bound(STATEMENT_SECONDS, LOCK_SECONDS)
    interval = hub().poll_interval.total_seconds()
    steps = [ManagedStep(each.kind, each.make_step, databases[each.kind], interval) for each in commands]
    try:
        run_loop(Loop(steps, hub().batch_size, isolated=True))
    except CommandError as error:
        sys.stderr.write(f"CommandError: {error}\n")
        return error.returncode
    return 0


def web_server(address: str, probes: str = "") -> Child:
    return Child("web", [*_program(), "run_web", address, "--probes", probes], _environment("web"))


def _program() -> list[str]:
    manage = settings.BASE_DIR / "manage.py"
    return [sys.executable, *([str(manage)] if manage.exists() else ["-m", "webhookhub.command_line"])]


def _plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"


def _environment(kind: str) -> dict[str, str]:
    """For a program: its own DATABASE_URL if it has one, and not the URLs of others, which contain passwords."""
    own = os.environ.get(PROCESS_DATABASE_URLS[kind])
    # Emptied, not removed: a child also reads the file .env, which sets missing variables.
    others = [*PROCESS_DATABASE_URLS.values(), *([] if kind == "web" else [INGEST_DATABASE_URL])]
    environment = {**os.environ, **dict.fromkeys(others, "")}
    if environment.get("DJANGO_SETTINGS_MODULE") == "webhookhub.loop_settings":
        environment["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"  # only loops do without the console
    return {**environment, "DATABASE_URL": own} if own else environment


def _other_urls(own: Mapping[str, str]) -> set[str]:
    """The variables whose URLs, with their passwords, are not for a process with these kinds and URLs."""
    others = {INGEST_DATABASE_URL, *PROCESS_DATABASE_URLS.values()} - {PROCESS_DATABASE_URLS[kind] for kind in own}
    return others | ({"DATABASE_URL"} if all(own.values()) else set())


def _require_one_database(kinds: set[str]) -> None:
    """Without DATABASE_URL a process uses the embedded database, which the others would not share."""
    own = {kind for kind in kinds if os.environ.get(PROCESS_DATABASE_URLS[kind])}
    if settings.EMBEDDED and own and own != kinds:
        names = ", ".join(PROCESS_DATABASE_URLS[kind] for kind in sorted(kinds - own))
        raise CommandError(
            f"Some processes have a database URL of their own and others none: set DATABASE_URL, or {names}.",
            returncode=os.EX_CONFIG,
        )
