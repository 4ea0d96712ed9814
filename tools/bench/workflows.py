"""`python -m tools.bench.workflows`: what tracking business workflows costs, and how much of it the hub can do.

Events of tracked sagas per second; the hub's rate for events that nobody tracks, with and without trigger and tracker;
how soon a time-out is noticed among very many open sagas.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from datetime import datetime, timedelta

from tools.bench import drain, hub, load, machine
from tools.bench.context import Context
from tools.bench.database import Server
from tools.bench.options import FULL, QUICK, Options
from tools.bench.result import Result, table
from tools.bench.spread import Spread, ratios
from tools.demo import signals

TYPES = ("order.submitted", "inventory.reserved", "payment.processed", "shipping.arranged", "order.confirmed")
RATE_TARGET, COST_TARGET, NOTICE_TARGET = 1000, 0.85, 10
TRIGGER = "trg_event_workflow_inbox"
ROWS = 1000
# The shipped definition's time for its second step.
STEP_SECONDS = 300
OVERDUE = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.workflows", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(SCENARIOS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small numbers: whether it works at all")
    parser.add_argument("--minutes", type=float, default=10.0, help="leave out what would take longer (10)")
    parser.add_argument("--mysqld", metavar="PROGRAM", help="the server to start (mariadbd, or else mysqld)")
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    signals.install()
    print(machine.in_words(machine.about()), flush=True)
    wrong = False
    with Context(Options(QUICK if options.quick else FULL, options.mysqld), options.minutes) as context:
        names = options.scenarios or list(SCENARIOS)
        for name in names:
            context.allow(1 / len(names))
            result = SCENARIOS[name](context, options.quick)
            wrong |= result.wrong
            print(table([result]), flush=True)
    return int(wrong)


def tracked(context: Context, quick: bool) -> Result:
    """The whole hub runs; events of sagas that complete, already published, until the last is tracked."""
    result = Result("workflows: tracked")
    sagas = 200 if quick else 4000
    rates = []
    for _ in context.within(range(context.sizes.repeats)):
        database = context.database()
        database.empty()
        with hub.running(context, database) as loops:
            _insert(database, [(kind, f"k-{number}", None) for number in range(sagas) for kind in TYPES])
            began = time.monotonic()
            load.until(lambda database=database: int(not _waiting(database)), 1, loops.alive, 300.0)  # type: ignore[misc]
            rates.append(sagas * len(TYPES) / (time.monotonic() - began))
        [(completed,)] = database.execute("SELECT COUNT(*) FROM saga_instances WHERE status = 'COMPLETED'")
        assert completed == sagas, f"{completed} of {sagas} sagas completed"
    spread = Spread.of(rates)
    result.at_least("tracked events/s", spread, spread.median, RATE_TARGET)
    return result


def untracked(context: Context, quick: bool) -> Result:
    """Deliveries of events that no workflow listens to: with tracker and trigger, and without either, in turns."""
    result = Result("workflows: untracked")
    rates: dict[bool, list[float]] = {True: [], False: []}
    database = context.database()
    [(statement,)] = database.execute(
        "SELECT action_statement FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
        "AND trigger_name = %s",
        [TRIGGER],
    )
    cpu = []
    for turn in context.within(range(1 if quick else 2 * context.sizes.repeats)):
        # In turns, and each first as often as second: what is second finds the server warm.
        for tracking in (turn % 2 == 1, turn % 2 == 0):
            database.empty()
            with hub.running(context, database, None if tracking else {"workflows": 0}) as loops:
                # Only now: a loop does not start without its triggers.
                if not tracking:
                    database.execute(f"DROP TRIGGER {TRIGGER}")
                found = drain.measure(context, database, loops, context.sizes.drain // 4)
                rates[tracking].append(found.rate)
                cpu += [found.cpu["workflows"]] if tracking else []
                if not tracking:
                    database.execute(f"CREATE TRIGGER {TRIGGER} AFTER INSERT ON events FOR EACH ROW {statement}")
    result.say("deliveries/s with tracking", Spread.of(rates[True]))
    result.say("deliveries/s without", Spread.of(rates[False]))
    result.say("µs of CPU of run_workflows per delivery", Spread.of(cpu))
    spread = ratios(rates[True], rates[False])
    result.at_least("with ÷ without", spread, spread.median, COST_TARGET)
    return result


def noticed(context: Context, quick: bool) -> Result:
    """Some of very many open sagas come to their deadline, one after the other."""
    result = Result("workflows: time-outs")
    many = 1000 if quick else 100_000
    database = context.database()
    database.empty()
    _fill(database, many)
    with hub.running(context, database) as loops:
        [(now,)] = database.execute("SELECT UTC_TIMESTAMP(6)")
        dues = [now + timedelta(seconds=1 + 0.1 * number) for number in range(OVERDUE)]
        _insert(
            database,
            [(TYPES[0], f"late-{number}", due - timedelta(seconds=STEP_SECONDS)) for number, due in enumerate(dues)],
        )
        load.until(lambda: _late(database), OVERDUE, loops.alive, 60.0)
    taken = sorted((at - occurred).total_seconds() - STEP_SECONDS for occurred, at in _decided(database))
    result.say(f"seconds to notice one of {OVERDUE}, the median", f"{taken[len(taken) // 2]:.2f}")
    result.at_most(f"seconds to notice, at most, with {many:,} open", f"{taken[-1]:.2f}", taken[-1], NOTICE_TARGET)
    return result


def _insert(database: Server, events: list[tuple[str, str, datetime | None]]) -> None:
    """(type, correlation id, when if not now), in one transaction."""
    database.execute("BEGIN")
    for start in range(0, len(events), ROWS):
        piece = events[start : start + ROWS]
        row = "(%s, %s, 'bench', %s, %s, COALESCE(%s, UTC_TIMESTAMP(6)))"
        values = [
            value
            for kind, key, at in piece
            for value in (uuid.uuid4().hex, kind, key, json.dumps({"order_id": key, "amount": 12}), at)
        ]
        database.execute(
            "INSERT INTO events (uid, event_type, source, correlation_id, payload, created_at) "
            f"VALUES {', '.join([row] * len(piece))}",
            values,
        )
    database.execute("COMMIT")


def _fill(database: Server, sagas: int) -> None:
    """Open sagas, with their first fact, whose time comes tomorrow."""
    row = "(%s, 'order_submission', 1, %s, %s, 'inventory', 'IN_PROGRESS', UTC_TIMESTAMP(6), '', "
    row += "UTC_TIMESTAMP(6) + INTERVAL 1 DAY, '{}', '', 0, 0, 1)"
    for start in range(0, sagas, ROWS):
        keys = [f"open-{number}" for number in range(start, min(start + ROWS, sagas))]
        database.execute(
            "INSERT INTO saga_instances (saga_id, saga_type, definition_version, correlation_key, aggregate_id, "
            "current_step, status, started_at, error_message, deadline, steps, anomaly, needs_operator, by_hand, "
            f"version) VALUES {', '.join([row] * len(keys))}",
            [value for key in keys for value in (uuid.uuid4().hex, key, key)],
        )
    database.execute(
        "INSERT INTO saga_facts (instance_id, step, role, origin, actor, reason, detail, occurred_at) "
        "SELECT id, 'order', 'done', 'event', '', '', '', UTC_TIMESTAMP(6) FROM saga_instances"
    )
    database.execute("ANALYZE TABLE saga_instances, saga_facts")


def _waiting(database: Server) -> bool:
    return bool(database.execute("SELECT 1 FROM workflow_inbox LIMIT 1"))


def _late(database: Server) -> int:
    [(found,)] = database.execute("SELECT COUNT(*) FROM saga_instances WHERE status = 'COMPENSATING'")
    return int(found)


def _decided(database: Server) -> list[tuple[datetime, datetime]]:
    rows = database.execute(
        "SELECT o.occurred_at, d.occurred_at FROM saga_facts d JOIN saga_facts o "
        "ON o.instance_id = d.instance_id AND o.role = 'done' WHERE d.role = 'failing'"
    )
    return [(occurred, at) for occurred, at in rows]


SCENARIOS = {"tracked": tracked, "untracked": untracked, "noticed": noticed}


if __name__ == "__main__":
    sys.exit(main())
