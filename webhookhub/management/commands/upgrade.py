from collections.abc import Sequence
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration

from webhookhub import __version__
from webhookhub.upgrade.pending import Pending, is_new_database, own_apps, pending, unknown_migrations
from webhookhub.upgrade.plan import Planned, planned
from webhookhub.upgrade.processes import other_versions

WIDTH = 140
EXPAND = "expand: processes of the version before go on working while it is applied and afterwards"
CONTRACT = "contract: applied by --contract, when no process of the version before is left"
BLOCKED = "expand, but it needs a migration to contract first: see docs/upgrade.md"
PACKAGE = "of a package: short, on tables of users and sessions"


class Command(BaseCommand):
    help = (
        f"Upgrades the database to version {__version__} while processes of the version before run. Afterwards, "
        "replace the processes, and run it again with --contract."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--plan", action="store_true", help="print what would be done; with -v 2, all of the SQL")
        parser.add_argument(
            "--contract",
            action="store_true",
            help="also apply the migrations that a process of the version before does not survive",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        loader = MigrationLoader(connection)
        if unknown := unknown_migrations(loader):
            app, name = unknown[0]
            raise CommandError(f"A version newer than {__version__} has migrated this database: {app}.{name}.")
        todo = pending(loader)
        if options["plan"]:
            self._print_plan(loader, todo, is_long=options["verbosity"] > 1)
        elif options["contract"] or is_new_database(loader):
            self._contract(loader, todo, options["verbosity"])
        else:
            self._expand(todo, options["verbosity"])

    def _expand(self, todo: Pending, verbosity: int) -> None:
        _migrate(todo.expand, verbosity)
        if todo.blocked:
            names = ", ".join(map(str, todo.blocked))
            raise CommandError(
                f"{names} needs a migration to contract first. Install the version before, replace all processes by it "
                "and run its `upgrade --contract`; or stop all processes and run `upgrade --contract`."
            )
        self._say(f"The database is ready for version {__version__}." if todo.expand else "Nothing to expand.")
        if todo.contract:
            names = ", ".join(map(str, todo.contract))
            self._say(f"Replace all processes by version {__version__}; then run `upgrade --contract` for {names}.")

    def _contract(self, loader: MigrationLoader, todo: Pending, verbosity: int) -> None:
        if todo.contract and not is_new_database(loader) and (others := other_versions()):
            running = ", ".join(f"{count} of version {version}" for version, count in sorted(others.items()))
            raise CommandError(
                f"Other loops run: {running}. Replace them by version {__version__} first. `version` shows what runs."
            )
        call_command("migrate", verbosity=verbosity)
        self._say(f"The database is that of version {__version__}.")

    def _print_plan(self, loader: MigrationLoader, todo: Pending, *, is_long: bool) -> None:
        own = own_apps()
        for kind, migrations in ((EXPAND, todo.expand), (CONTRACT, todo.contract), (BLOCKED, todo.blocked)):
            for migration in migrations:
                is_own = migration.app_label in own
                self._print(planned(loader, migration), kind if is_own else PACKAGE, is_long=is_long)
        if not any(todo):
            self._say(f"Nothing to do: the database is that of version {__version__}.")
            return
        if is_new_database(loader):
            self._say("The database is new: `upgrade` creates everything.")
            return
        self._say("Then:")
        self._say("  1. `upgrade`, while the processes of the version before run.")
        self._say("  2. `grant_roles`, if you use roles.")
        self._say(f"  3. Replace the processes by version {__version__}, one after the other: loops and web servers.")
        if todo.contract:
            self._say(
                "  4. `upgrade --contract`, when `version` shows no other version and no other web server is left."
            )

    def _print(self, plan: Planned, kind: str, *, is_long: bool) -> None:
        self._say(f"{plan.migration}  ({kind})")
        if plan.about:
            self._say(f"  {plan.about}")
        for operation in plan.operations:
            self._say(f"  - {_short(operation, is_long=is_long)}")
        for table, rows in sorted(plan.rows.items()):
            self._say(f"  on {table}, about {rows:,} rows")
        for statement in plan.statements:
            self._say(f"    {_short(statement.sql, is_long=is_long)}\n      {statement.how}")
        self._say("")

    def _say(self, text: str) -> None:
        self.stdout.write(text)


def _migrate(migrations: Sequence[Migration], verbosity: int) -> None:
    """Up to the last one of each app, in their order."""
    last = {migration.app_label: migration.name for migration in migrations}
    for app, name in last.items():
        call_command("migrate", app, name, verbosity=verbosity)


def _short(text: str, *, is_long: bool) -> str:
    return text if is_long or len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
