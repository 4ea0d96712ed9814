import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, parse_time, progress
from workflows import backtest, listening, versions
from workflows.definition import Definition
from workflows.models import Instance
from workflows.parsing import InvalidDefinition
from workflows.registry import Registry, read
from workflows.replay import replay

SHOWN = 20


class Command(BaseCommand):
    help = (
        "Looks at business workflows: what is defined, whether rows and facts agree, what a new version would change."
    )
    # A definition that is at fault is what `check` is asked about: it says so itself.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verbs.add_parser("list", help="the definitions there are, with their steps")
        verbs.add_parser("check", help="whether every definition can be used; exits 1 if one cannot")
        untracking = verbs.add_parser(
            "untrack", help="stops tracking event types that no definition and no open workflow needs any more"
        )
        untracking.add_argument("--dry-run", action="store_true", help="only say which")
        replaying = verbs.add_parser("replay", help="folds all stored facts again; exits 1 if a row differs")
        replaying.add_argument("--json", action="store_true", help="print the result as JSON")
        testing = verbs.add_parser("backtest", help="tries a definition on past events; writes nothing")
        testing.add_argument(
            "--definition",
            required=True,
            metavar="FILE",
            help="a file (*.toml), or NAME or NAME:VERSION of a loaded one",
        )
        testing.add_argument("--since", required=True, metavar="TIME", help=f"events stored then or later: {EXAMPLE}")
        testing.add_argument("--until", metavar="TIME", help="events stored then or earlier (now)")
        testing.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except InvalidDefinition as error:
            raise CommandError(f"{error}.") from None

    def _list(self, options: dict[str, Any]) -> None:
        known = versions.in_force()
        without_file = [current for _, current in known.overtaken]
        for each in known.all():
            mark = " (in force; its file is not here)" if each in without_file else ""
            mark = mark if known.offers(each) else " (no longer offered)"
            self.stdout.write(f"{each.label}: {each.title}{mark}")
            for step in each.steps:
                marks = [f"after {', '.join(step.after)}" if step.after else "first"]
                marks += [f"within {step.timeout.total_seconds():g} s"] if step.timeout else []
                marks += ["can be undone"] if step.can_be_undone else []
                marks += ["optional"] if step.optional else []
                self.stdout.write(f"  {step.key}: {'; '.join(marks)}")

    def _check(self, options: dict[str, Any]) -> None:
        known = versions.in_force()
        if not known.latest:
            raise CommandError("There is no definition (*.toml) in the folders that the setting names: none begins.")
        found = known.all()
        self.stdout.write(f"{len(found)} definitions, all usable: {', '.join(each.label for each in found) or 'none'}.")

    def _untrack(self, options: dict[str, Any]) -> None:
        found = listening.not_needed(versions.in_force())
        if not options["dry_run"]:
            listening.untrack(found)
        done = "would be tracked no more" if options["dry_run"] else "are tracked no more"
        self.stdout.write(f"{len(found)} event types {done}{': ' if found else ''}{', '.join(found)}.")

    def _replay(self, options: dict[str, Any]) -> None:
        last = Instance.objects.order_by("-id").values_list("id", flat=True).first() or 0
        show = progress("replay", last)
        looked_at, differing = 0, []
        for batch in replay(versions.in_force(), hub().batch_size):
            looked_at += batch.looked_at
            differing += batch.differences
            show(min(batch.last_id, last), f" · {looked_at} sagas")
        if options["json"]:
            shown = [str(each) for each in differing[:SHOWN]]
            self.stdout.write(json.dumps({"sagas": looked_at, "differences": len(differing), "first": shown}))
        else:
            for each in differing[:SHOWN]:
                self.stdout.write(str(each))
            self.stdout.write(f"{looked_at} sagas folded again, {len(differing)} differences.")
        if differing:
            raise CommandError("Rows and facts do not agree.")

    def _backtest(self, options: dict[str, Any]) -> None:
        since, until = parse_time("--since", options["since"]), parse_time("--until", options["until"]) or clock.now()
        assert since is not None
        if until < since:
            raise CommandError("--until lies before --since.")
        definition = _definition(options["definition"])
        show = progress("backtest", backtest.MOST_EVENTS)
        result = backtest.backtest(definition, since, until, progress=lambda events: show(events, " events"))
        if options["json"]:
            self.stdout.write(json.dumps(_document(definition, result)))
            return
        self.stdout.write(f"{definition.label} over {result.events} events of {result.sagas} sagas:")
        for status in sorted({*result.before, *result.after}):
            self.stdout.write(f"  {status:<14}{result.before[status]:>9} → {result.after[status]:>9}")
        for each in result.first:
            self.stdout.write(f"  {each}")
        for line in _besides(definition, result):
            self.stdout.write(f"  {line}")
        if result.cut_short:
            self.stdout.write(f"  There were more events or sagas than {backtest.MOST_EVENTS}: give --until.")
        self.stdout.write(f"{result.differing} would differ; nothing was written.")


def _definition(named: str) -> Definition:
    if named.endswith(".toml"):
        return read(Path(named))
    loaded: Registry = versions.in_force()
    name, _, version = named.partition(":")
    found = loaded.get(name, int(version)) if version.isdecimal() else loaded.shown.get(name)
    if found is None or (version and not version.isdecimal()):
        known = ", ".join(f"{each.name}:{each.version}" for each in loaded.all())
        raise CommandError(
            f"--definition: there is no {named!r}; there are {known}, or name a file that ends in .toml."
        )
    return found


def _besides(definition: Definition, result: backtest.Backtest) -> Iterator[str]:
    """What the definition does not find; what was taken along of sagas besides the events of that time, and what could
    not be."""
    if result.without_key:
        yield f"{result.without_key} events have no usable key at {definition.correlation}, and are of no saga."
    if result.not_found:
        yield f"{result.not_found} sagas would not be tracked: this definition finds none of their events."
    if result.earlier or result.told:
        yield f"With {result.earlier} other events that these sagas had, and {result.told} facts told of them."
    if result.left_out:
        yield (
            f"Without {result.left_out} facts that were told: of a step that this definition has not, or of a saga of "
            "which it makes several."
        )
    if result.missing:
        yield f"Without {result.missing} events that are there no more."
    if result.beginnings_unseen:
        yield (
            f"{result.beginnings_unseen} sagas are not tracked, and their start is not among these events: what they "
            "had before --since is not in it."
        )


def _document(definition: Definition, result: backtest.Backtest) -> dict[str, Any]:
    return {
        "name": definition.name,
        "version": definition.version,
        "events": result.events,
        "sagas": result.sagas,
        "before": dict(result.before),
        "after": dict(result.after),
        "differing": result.differing,
        "not_found": result.not_found,
        "events_without_key": result.without_key,
        "first": [str(each) for each in result.first],
        "cut_short": result.cut_short,
        "other_events": result.earlier,
        "told": result.told,
        "left_out": result.left_out,
        "missing": result.missing,
        "beginnings_unseen": result.beginnings_unseen,
    }
