"""Scenario `idle`: the CPU time of a hub without work, and the memory of a worker at full concurrency."""

from __future__ import annotations

import time

from tools.bench import hub, load, machine
from tools.bench.context import Context
from tools.bench.machine import CpuUsage
from tools.bench.results import Result

CPU_TARGET = 2
MEMORY_TARGET = 150
# Long enough to start all requests, too short for the endpoint to count as slow.
DELAY_SECONDS = 0.9


def run(context: Context) -> Result:
    result = Result("idle")
    _measure_idle_cpu(context, result)
    _measure_worker_memory(context, result)
    return result


def _measure_idle_cpu(context: Context, result: Result) -> None:
    database = context.database()
    database.empty()
    with hub.running(context, database) as loops:
        seconds = context.sizes.idle_seconds
        usage = CpuUsage(loops.pids() | {"database": [context.server.pid]})
        time.sleep(seconds)
        used = {kind: cpu / seconds * 100 for kind, cpu in usage.used().items()}
        loops.check_alive()
    for kind, percent in used.items():
        result.add(f"% of a core, {kind}", f"{percent:.2f}")
    server = used.pop("database")
    total = sum(used.values())
    name = f"% of a core, all loops without the database, over {seconds:g} s"
    result.at_most(name, f"{total:.2f}", total, CPU_TARGET)
    result.data |= {"percent_of_a_core": used, "database": server, "total": total}


def _measure_worker_memory(context: Context, result: Result) -> None:
    wanted = context.sizes.concurrency
    database = context.database()
    database.empty()
    with hub.running(
        context, database, WEBHOOKHUB_WORKER_CONCURRENCY=str(wanted), WEBHOOKHUB_REQUESTS_PER_HOST=str(wanted)
    ) as loops:
        [worker] = loops.pids()["worker"]
        context.endpoint.delay(DELAY_SECONDS)
        try:
            batch = load.insert(database, 4 * wanted)
            concurrent, memory = 0, 0.0
            until = time.monotonic() + load.STALL_SECONDS
            while (counts := context.endpoint.counts()).received < batch.deliveries and time.monotonic() < until:
                concurrent = max(concurrent, counts.pending)
                memory = max(memory, machine.memory_mb(worker))
                loops.check_alive()
                time.sleep(load.POLL_SECONDS)
            load.wait_for_end(database, context.endpoint, batch, loops.check_alive)
        finally:
            context.endpoint.delay(0)
            context.endpoint.take()
    result.add("concurrent requests, at most", f"{concurrent} of {wanted}")
    if concurrent == wanted:
        result.at_most("MB of the worker", f"{memory:.0f}", memory, MEMORY_TARGET)
    else:
        result.add("MB of the worker", f"{memory:.0f}, not at full concurrency")
    result.data |= {"concurrent_requests": concurrent, "worker_mb": memory}
