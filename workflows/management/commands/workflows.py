import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webhookhub.conf import hub, variable
from webhookhub.db import clock
from webhookhub.terminal import EXAMPLE, parse_time, progress, table, whole_number
from workflows import history, labels, scenarios, tracked_types, versions
from workflows.advance import require
from workflows.backtest import MAX_EVENTS, Backtest, backtest
from workflows.definition import Definition
from workflows.history import History, Row
from workflows.models import Fact, Instance
from workflows.parsing import InvalidDefinition
from workflows.registry import Registry, load, read
from workflows.replay import check, replay
from workflows.scenarios import End, Result
from workflows.state import State

MAX_SHOWN = 20
MAX_POSITIONS = 10_000
CASE_COLUMNS = ("case", "step", "runs", "ends as", "compensation requested", "result")


class Command(BaseCommand):
    help = "Lists, checks and tests workflow definitions, replays runs, and tries a new version on past events."
    # `check` reports invalid definitions itself.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verbs.add_parser("list", help="lists the definitions with their steps")
        verbs.add_parser("check", help="checks every definition; exits 1 if one is not valid")
        cases = verbs.add_parser(
            "test", help="runs generated cases on the definitions in a folder; needs no database; exits 1 if one fails"
        )
        cases.add_argument("folder", type=Path, metavar="FOLDER", help="a folder with definitions (*.toml)")
        untracking = verbs.add_parser(
            "untrack", help="stops tracking event types that no definition and no open run needs"
        )
        untracking.add_argument("--dry-run", action="store_true", help="only list the types")
        replaying = verbs.add_parser(
            "replay", help="folds stored facts again, of all runs or step by step of one; exits 1 if a row differs"
        )
        replaying.add_argument("saga_id", nargs="?", metavar="SAGA_ID", help="show the state after each fact of a run")
        replaying.add_argument(
            "--position", type=whole_number(MAX_POSITIONS), metavar="N", help="show only the state after fact N"
        )
        replaying.add_argument(
            "--definition",
            metavar="FILE",
            help="also replay the run under this version: a file (*.toml), NAME or NAME:VERSION",
        )
        replaying.add_argument("--json", action="store_true", help="print the result as JSON")
        testing = verbs.add_parser("backtest", help="tries a definition on past events; writes nothing")
        testing.add_argument(
            "--definition",
            required=True,
            metavar="FILE",
            help="a file (*.toml), or NAME or NAME:VERSION of a loaded definition",
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
        registry = versions.in_force()
        without_file = [current for _, current in registry.overtaken]
        for definition in registry.all():
            mark = " (in force; its file is not here)" if definition in without_file else ""
            mark = mark if registry.offers(definition) else " (no longer offered)"
            self.stdout.write(f"{definition.label}: {definition.title}{mark}")
            for step in definition.steps:
                marks = [f"after {', '.join(step.after)}" if step.after else "first"]
                marks += [f"within {step.timeout.total_seconds():g} s"] if step.timeout else []
                marks += ["can be undone"] if step.can_be_undone else []
                marks += ["optional"] if step.optional else []
                self.stdout.write(f"  {step.key}: {'; '.join(marks)}")

    def _check(self, options: dict[str, Any]) -> None:
        registry = versions.in_force()
        if not registry.latest:
            raise CommandError(
                f"There is no definition (*.toml) in the folders of {variable('workflow_definitions')}: "
                "no run will start."
            )
        labels = [definition.label for definition in registry.all()]
        self.stdout.write(f"{len(labels)} definitions, all valid: {', '.join(labels)}.")

    def _test(self, options: dict[str, Any]) -> None:
        folder: Path = options["folder"]
        if not folder.is_dir():
            raise CommandError(f"{folder} is not a folder.")
        definitions = load((folder.resolve(),)).all()
        if not definitions:
            raise CommandError(f"There is no definition (*.toml) in {folder}.")
        failed, count = [], 0
        for definition in definitions:
            found = list(scenarios.results(definition))
            count += len(found)
            failed += [result for result in found if not result.passed]
            self.stdout.write(f"{definition.label}: {definition.title}")
            for line in table([CASE_COLUMNS, *map(_case, found)]):
                self.stdout.write(f"  {line}")
        for result in failed:
            self.stdout.write(f"{result}:")
            self.stdout.write(f"  the rules require: {_end(result.expected)}")
            self.stdout.write(f"  what happens:      {_end(result.end)}")
        if failed:
            names = "; ".join(map(str, failed))
            raise CommandError(f"{len(failed)} of {count} cases do not end as the rules require: {names}.")
        self.stdout.write(f"{count} cases of {len(definitions)} definitions, all as the rules require.")

    def _untrack(self, options: dict[str, Any]) -> None:
        types = tracked_types.not_needed(versions.in_force())
        if not options["dry_run"]:
            tracked_types.untrack(types)
        done = "would no longer be tracked" if options["dry_run"] else "are no longer tracked"
        self.stdout.write(f"{len(types)} event types {done}{': ' if types else ''}{', '.join(types)}.")

    def _replay(self, options: dict[str, Any]) -> None:
        if options["saga_id"] is not None:
            self._replay_run(options)
            return
        if options["position"] or options["definition"]:
            raise CommandError("--position and --definition need a SAGA_ID.")
        last = Instance.objects.order_by("-id").values_list("id", flat=True).first() or 0
        show = progress("replay", last)
        runs, differences = 0, []
        for batch in replay(versions.in_force(), hub().batch_size):
            runs += batch.runs
            differences += batch.differences
            show(min(batch.last_id, last), f" · {runs} runs")
        first = [str(difference) for difference in differences[:MAX_SHOWN]]
        if options["json"]:
            self.stdout.write(json.dumps({"runs": runs, "differences": len(differences), "first": first}))
        else:
            for line in first:
                self.stdout.write(line)
            self.stdout.write(f"{runs} runs folded again, {len(differences)} differences.")
        if differences:
            raise CommandError("Rows and facts do not agree.")

    def _replay_run(self, options: dict[str, Any]) -> None:
        run, registry = _run(options["saga_id"]), versions.in_force()
        own = require(registry, run.saga_type, run.definition_version)
        left = history.recorded(run, own)
        right = None
        if options["definition"]:
            definition = _definition(options["definition"])
            if definition.name != run.saga_type:
                raise CommandError(f"--definition: the run is one of {run.saga_type}, not of {definition.name}.")
            right = history.simulated(run, own, definition, clock.now())
        rows = history.side_by_side(left, right)
        position = options["position"]
        if position and position > len(rows):
            raise CommandError(f"--position: the run has only {len(rows)} facts.")
        differences = [str(difference) for difference in check([run.pk], registry)]
        if options["json"]:
            shown = [_row_as_json(number, row) for number, row in enumerate(rows, 1) if position in (None, number)]
            content = {"run": str(run), "versions": [own.version, *([right.definition.version] if right else [])]}
            self.stdout.write(json.dumps({**content, "facts": shown, "differences": differences}))
        else:
            for line in _replayed(run, rows, left, right, position):
                self.stdout.write(line)
            for line in differences:
                self.stdout.write(line)
        if differences:
            raise CommandError("The row and its facts do not agree.")

    def _backtest(self, options: dict[str, Any]) -> None:
        since, until = parse_time("--since", options["since"]), parse_time("--until", options["until"]) or clock.now()
        assert since is not None
        if until < since:
            raise CommandError("--until is before --since.")
        definition = _definition(options["definition"])
        show = progress("backtest", MAX_EVENTS)
        result = backtest(definition, since, until, progress=lambda events: show(events, " events"))
        if options["json"]:
            self.stdout.write(json.dumps({"name": definition.name, "version": definition.version, **vars(result)}))
            return
        self.stdout.write(f"{definition.label} over {result.events} events of {result.runs} runs:")
        for status in sorted({*result.before, *result.after}):
            self.stdout.write(f"  {status:<14}{result.before[status]:>9} → {result.after[status]:>9}")
        for line in [*result.first, *_remarks(definition, result)]:
            self.stdout.write(f"  {line}")
        self.stdout.write(f"{result.differing} would differ; nothing was written.")


def _definition(argument: str) -> Definition:
    registry = versions.in_force()
    if argument.endswith(".toml"):
        definition = read(Path(argument))
        # Refuses a correlation that differs from that of the stored versions.
        Registry([definition], [version for version in registry.all() if version.name == definition.name])
        return definition
    names = {f"{version.name}:{version.version}": version for version in registry.all()}
    if argument not in names and argument not in registry.shown:
        known = f"{argument!r} is not one of {', '.join(names)}, and not a file that ends in .toml."
        raise CommandError(f"--definition: {known}")
    return names.get(argument) or registry.shown[argument]


def _case(result: Result) -> tuple[str, ...]:
    """A row of the table of cases."""
    end = result.end
    marks = ["needs an operator"] if end.needs_operator else []
    marks += ["anomaly"] if end.is_anomalous else []
    requested = "depends on the order" if end.steps else ", ".join(end.requested)
    status = ", ".join([end.status, *marks])
    return result.kind, result.step, str(result.runs), status, requested, "ok" if result.passed else "FAILED"


def _end(end: End) -> str:
    published = ", ".join(f"{effect.kind} {effect.step}".strip() for effect in end.published)
    steps = ", ".join(f"{step} {state}" for step, state in end.steps)
    parts = [
        f"{end.status} at {end.step}" if end.step else end.status,
        "needs an operator" if end.needs_operator else "",
        "anomaly" if end.is_anomalous else "",
        f"published {published}" if published else "nothing published",
        f"steps {steps}" if steps else "",
    ]
    return "; ".join(filter(None, parts))


def _run(saga_id: str) -> Instance:
    try:
        run = Instance.objects.filter(saga_id=UUID(saga_id)).first()
    except ValueError:
        raise CommandError(f"{saga_id!r} is not the id of a run.") from None
    if run is None:
        raise CommandError(f"There is no run {saga_id}.")
    return run


def _replayed(
    run: Instance, rows: Sequence[Row], left: History, right: History | None, position: int | None
) -> Iterator[str]:
    """A line for each fact, or the whole state after one of them."""
    own = left.definition
    yield f"{run}: version {own.version}, {len(left.positions)} facts"
    titles = [f"version {own.version}"]
    if right:
        yield f"under version {right.definition.version}: {len(right.positions)} facts"
        titles.append(f"version {right.definition.version}")
    if position:
        row = rows[position - 1]
        yield f"  after {position}: {_fact_text(row.fact)}"
        for title, state in zip(titles, (row.left_state, row.right_state), strict=False):
            yield f"  {title}: {_state(state)}"
            yield from (f"    {line}" for line in _details(state))
    else:
        header = ["no", "when", "fact", *titles, *(["differs"] if right else ["steps that changed"])]
        yield from (f"  {line}" for line in table([header, *_lines(rows, right is not None)]))
    if left.cut:
        yield f"Only the first {history.MAX_FACTS} facts are shown."
    if right and right.missing:
        yield f"Left out under version {right.definition.version}: {right.missing} events that are no longer stored."


def _lines(rows: Sequence[Row], compared: bool) -> Iterator[list[str]]:
    before: Mapping[str, str] = {}
    for number, row in enumerate(rows, 1):
        line = [str(number), row.fact.occurred_at.isoformat(), _fact_text(row.fact)]
        if compared:
            sides = ((row.left, row.left_state), (row.right, row.right_state))
            # In brackets: this side does not have the fact.
            left, right = (_state(state) if position else f"({_state(state)})" for position, state in sides)
            if row.right_at:
                right = f"{right}, at {row.right_at.isoformat()}"
            yield [*line, left, right, "differs" if row.differs else ""]
        else:
            after = row.left_state.steps if row.left_state else {}
            changed = [f"{step} {state}" for step, state in after.items() if before.get(step) != state]
            before = after
            yield [*line, _state(row.left_state), ", ".join(changed)]


def _fact_text(fact: Fact) -> str:
    return f"{fact.step}: {labels.fact(fact)}" if fact.step else labels.fact(fact)


def _state(state: State | None) -> str:
    if state is None:
        return "–"
    marks = ["needs an operator"] if state.needs_operator else []
    marks += [f"anomaly: {state.anomaly}"] if state.anomaly else []
    place = f"{state.status} at {state.current_step}" if state.current_step else state.status
    return ", ".join([place, *marks])


def _details(state: State | None) -> Iterator[str]:
    if state is not None:
        yield from (f"{step}: {step_state}" for step, step_state in state.steps.items())
        if state.deadline:
            yield f"deadline: {state.deadline.isoformat()}"
        if state.error_message:
            yield f"error: {state.error_message}"


def _row_as_json(number: int, row: Row) -> dict[str, Any]:
    fact = row.fact
    states = [
        {"status": state.status, "current_step": state.current_step, "steps": dict(state.steps)} if state else None
        for state in (row.left_state, row.right_state)
    ]
    content = {"number": number, "occurred_at": fact.occurred_at.isoformat(), "step": fact.step, "role": fact.role}
    sides = {"recorded": row.left is not None, "other": row.right is not None}
    facts_of = [name for name, there in sides.items() if there]
    other_at = row.right_at.isoformat() if row.right_at else None
    return {**content, "facts_of": facts_of, "other_at": other_at, "states": states}


def _remarks(definition: Definition, result: Backtest) -> Iterator[str]:
    if result.without_key:
        yield f"{result.without_key} events have no usable key at {definition.correlation} and belong to no run."
    if result.not_found:
        yield f"{result.not_found} runs would not be tracked: this definition uses none of their events."
    if result.other_events or result.reported:
        yield f"Included: {result.other_events} other events of these runs, and {result.reported} reported facts."
    if result.left_out:
        yield f"Left out: {result.left_out} reported facts about steps that this definition does not have."
    if result.missing:
        yield f"Left out: {result.missing} events that are no longer stored."
    if result.starts_unseen:
        yield f"{result.starts_unseen} runs are not tracked, and their start is not among these events."
    if result.cut_short:
        yield f"There were more events or runs than {MAX_EVENTS}: give --until."
