"""Scenario `idle`: what a hub costs that has nothing to do, and a worker's memory when it has very much to do."""

from __future__ import annotations

import time

from tools.bench import hub, load, usage
from tools.bench.context import Context
from tools.bench.result import Result

CPU_TARGET = 2
MEMORY_TARGET = 150
# Longer than it takes to get all transfers under way, shorter than what is taken for a slow receiver.
DELAY_SECONDS = 0.9


def run(context: Context) -> Result:
    result = Result("idle")
    _nothing(context, result)
    _much(context, result)
    return result


def _nothing(context: Context, result: Result) -> None:
    database = context.database()
    database.empty()
    with hub.running(context, database) as loops:
        # There is nothing to wait for but the time itself.
        seconds = context.sizes.idle_seconds
        kinds = loops.pids() | {"database": [context.server.pid]}
        before = {kind: usage.cpu_of(pids) for kind, pids in kinds.items()}
        time.sleep(seconds)
        used = {kind: (usage.cpu_of(pids) - before[kind]) / seconds * 100 for kind, pids in kinds.items()}
        loops.alive()
    for kind, percent in used.items():
        result.say(f"% of a core, {kind}", f"{percent:.2f}")
    server = used.pop("database")
    total = sum(used.values())
    result.at_most(
        f"% of a core, all loops without the database, over {seconds:g} s", f"{total:.2f}", total, CPU_TARGET
    )
    result.data |= {"percent_of_a_core": used, "database": server, "total": total}


def _much(context: Context, result: Result) -> None:
    wanted = context.sizes.in_flight
    database = context.database()
    database.empty()
    with hub.running(
        context, database, WEBHOOKHUB_WORKER_CONCURRENCY=str(wanted), WEBHOOKHUB_REQUESTS_PER_HOST=str(wanted)
    ) as loops:
        [worker] = loops.pids()["worker"]
        context.echo.behave(delay=DELAY_SECONDS)
        try:
            batch = load.insert(database, 4 * wanted)
            most, memory = 0, 0.0
            until = time.monotonic() + load.PATIENCE_SECONDS
            while context.echo.gauge().answered < batch.deliveries and time.monotonic() < until:
                most = max(most, context.echo.gauge().held)
                memory = max(memory, usage.memory_mb(worker))
                loops.alive()
                time.sleep(load.LOOK_SECONDS)
            load.wait(database, context.echo, batch, loops.alive)
        finally:
            context.echo.behave()
            context.echo.take()
    result.say("requests under way at once, at most", f"{most} of {wanted}")
    if most == wanted:
        result.at_most("MB of a worker at that", f"{memory:.0f}", memory, MEMORY_TARGET)
    else:
        result.say("MB of a worker at that", f"{memory:.0f}, with fewer than it was to be measured with")
    result.data |= {"in_flight": most, "worker_mb": memory}
