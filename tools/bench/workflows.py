"""`python -m tools.bench.workflows`: the cost and the rate of tracking business workflows.

Scenarios: `tracked` (events of tracked runs per second), `untracked` (the rate of deliveries of untracked events, with
and without tracking), and `noticed` (seconds until a time-out is noticed among many open runs).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from datetime import datetime, timedelta
from functools import partial

from tools.bench import hub, load, machine
from tools.bench.context import FULL, QUICK, Context, Options
from tools.bench.database import Server
from tools.bench.results import Result, Spread, ratios, table
from tools.bench.scenarios import drain
from tools.demo import signals
from tools.support import guards

TYPES = ("order.submitted", "inventory.reserved", "payment.processed", "shipping.arranged", "order.confirmed")
RATE_TARGET, COST_TARGET, NOTICE_TARGET = 1000, 0.85, 10
TRIGGER = "trg_event_workflow_inbox"
ROWS = 1000
# The deadline of the second step in the included definition.
STEP_SECONDS = 300
OVERDUE = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.workflows", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of: {', '.join(SCENARIOS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see whether it works")
    parser.add_argument("--minutes", type=float, default=10.0, help="time limit; further runs are skipped (10)")
    parser.add_argument("--mysqld", metavar="PROGRAM", help="the server to start (mariadbd, or else mysqld)")
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}; choose from {', '.join(SCENARIOS)}")
    signals.install()
    print(machine.as_text(machine.describe()), flush=True)
    failed = False
    with Context(Options(QUICK if options.quick else FULL, options.mysqld), options.minutes) as context:
        names = options.scenarios or list(SCENARIOS)
        for name in names:
            context.allow(1 / len(names))
            result = SCENARIOS[name](context, options.quick)
            failed |= result.failed
            print(table([result]), flush=True)
    return int(failed)


def tracked(context: Context, quick: bool) -> Result:
    """Publishes the events of complete runs and waits until the last is tracked, with the whole hub running."""
    result = Result("workflows: tracked")
    runs = 200 if quick else 4000
    rates = []
    for _ in context.within(range(context.sizes.repeats)):
        database = context.database()
        database.empty()
        with hub.running(context, database) as loops:
            _insert(database, [(event_type, f"k-{number}", None) for number in range(runs) for event_type in TYPES])
            started = time.monotonic()
            load.wait_until(partial(_is_tracked, database), 1, loops.check_alive, 300.0)
            rates.append(runs * len(TYPES) / (time.monotonic() - started))
        [(completed,)] = database.execute("SELECT COUNT(*) FROM saga_instances WHERE status = 'COMPLETED'")
        assert completed == runs, f"{completed} of {runs} runs completed"
    spread = Spread.of(rates)
    result.at_least("tracked events/s", spread, spread.median, RATE_TARGET)
    return result


def untracked(context: Context, quick: bool) -> Result:
    """Drains events that no workflow listens to, alternately with and without the trigger and `run_workflows`."""
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
        # Each is first as often as second, because the second finds the server warm.
        for tracking in (turn % 2 == 1, turn % 2 == 0):
            database.empty()
            with hub.running(context, database, None if tracking else {"workflows": 0}) as loops:
                # After the start, because loops do not start without their triggers.
                if not tracking:
                    database.execute(f"DROP TRIGGER {TRIGGER}")
                run = drain.measure(context, loops, context.sizes.drain // 4)
                rates[tracking].append(run.rate)
                cpu += [run.cpu["workflows"]] if tracking else []
                if not tracking:
                    database.execute(f"CREATE TRIGGER {TRIGGER} AFTER INSERT ON events FOR EACH ROW {statement}")
    result.add("deliveries/s with tracking", Spread.of(rates[True]))
    result.add("deliveries/s without", Spread.of(rates[False]))
    result.add("µs of CPU of run_workflows per delivery", Spread.of(cpu))
    spread = ratios(rates[True], rates[False])
    result.at_least("with ÷ without", spread, spread.median, COST_TARGET)
    return result


def noticed(context: Context, quick: bool) -> Result:
    """Some of many open runs reach their deadline, one after the other."""
    result = Result("workflows: noticed")
    open_runs = 1000 if quick else 100_000
    database = context.database()
    database.empty()
    with guards.switched_off(database.execute):
        _fill(database, open_runs)
    with hub.running(context, database) as loops:
        [(now,)] = database.execute("SELECT UTC_TIMESTAMP(6)")
        dues = [now + timedelta(seconds=1 + 0.1 * number) for number in range(OVERDUE)]
        _insert(
            database,
            [(TYPES[0], f"late-{number}", due - timedelta(seconds=STEP_SECONDS)) for number, due in enumerate(dues)],
        )
        load.wait_until(partial(_count_compensating, database), OVERDUE, loops.check_alive, 60.0)
    seconds = sorted((at - occurred).total_seconds() - STEP_SECONDS for occurred, at in _decision_times(database))
    result.add(f"seconds to notice one of {OVERDUE}, median", f"{seconds[len(seconds) // 2]:.2f}")
    name = f"seconds to notice, maximum, with {open_runs:,} open"
    result.at_most(name, f"{seconds[-1]:.2f}", seconds[-1], NOTICE_TARGET)
    return result


def _insert(database: Server, events: list[tuple[str, str, datetime | None]]) -> None:
    """Inserts events as (type, correlation id, time or None for now) in one transaction."""
    database.execute("BEGIN")
    for start in range(0, len(events), ROWS):
        part = events[start : start + ROWS]
        row = "(%s, %s, 'bench', %s, %s, COALESCE(%s, UTC_TIMESTAMP(6)))"
        values = [
            value
            for event_type, key, at in part
            for value in (uuid.uuid4().hex, event_type, key, json.dumps({"order_id": key, "amount": 12}), at)
        ]
        database.execute(
            "INSERT INTO events (uid, event_type, source, correlation_id, payload, created_at) "
            f"VALUES {', '.join([row] * len(part))}",
            values,
        )
    database.execute("COMMIT")


def _fill(database: Server, runs: int) -> None:
    """Inserts open runs with their first fact, due tomorrow."""
    row = "(%s, 'order_submission', 1, %s, %s, 'inventory', 'IN_PROGRESS', UTC_TIMESTAMP(6), '', "
    row += "UTC_TIMESTAMP(6) + INTERVAL 1 DAY, '{}', '', 0, 0, 1)"
    for start in range(0, runs, ROWS):
        keys = [f"open-{number}" for number in range(start, min(start + ROWS, runs))]
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


def _is_tracked(database: Server) -> int:
    return int(not database.execute("SELECT 1 FROM workflow_inbox LIMIT 1"))


def _count_compensating(database: Server) -> int:
    [(count,)] = database.execute("SELECT COUNT(*) FROM saga_instances WHERE status = 'COMPENSATING'")
    return int(count)


def _decision_times(database: Server) -> list[tuple[datetime, datetime]]:
    rows = database.execute(
        "SELECT o.occurred_at, d.occurred_at FROM saga_facts d JOIN saga_facts o "
        "ON o.instance_id = d.instance_id AND o.role = 'done' WHERE d.role = 'failing'"
    )
    return [(occurred, at) for occurred, at in rows]


SCENARIOS = {"tracked": tracked, "untracked": untracked, "noticed": noticed}


if __name__ == "__main__":
    sys.exit(main())
