"""`python -m tests.nightly.torture.killed_steps KIND …`: runs steps of a loop, each in a process that is killed
(SIGKILL) at another point: before its first statement, before its second, and so on, and after each write.

Before each step there is new work, prepared by the other loops. Prints the number of killed steps by kind.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import django

BATCH = 100
# Steps differ in length. After this many completed ones in a row, there are no later points.
COMPLETED_IN_A_ROW = 3


def in_child(work: Callable[[], None]) -> bool:
    """Runs `work` in a child process. Returns False if it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"a step exited with {code}")
    return code == 0


def run_step(kind: str) -> None:
    from django.core.management import get_commands, load_command_class

    name = f"run_{kind}"
    command: Any = load_command_class(str(get_commands()[name]), name)
    step = command.make_step(f"{kind}:{os.getpid()}")
    step.run(BATCH)
    while step.pending():
        step.finish(BATCH)


def run_step_and_kill(kind: str, point: int) -> None:
    """Kills this process at the given point."""
    from django.db import connection

    passed = 0

    def pass_point() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(execute: Any, sql: str, *arguments: Any) -> Any:
        pass_point()
        result = execute(sql, *arguments)
        if not sql.startswith("SELECT"):
            pass_point()
        return result

    with connection.execute_wrapper(around):
        run_step(kind)


def prepare_work(victim: str) -> None:
    """Publishes events and runs the loops before the victim's."""
    from events.intake import NewEvent, publish_many

    publish_many([NewEvent("order.created", {}), NewEvent("order.refused", {})])
    others = {"router": (), "orchestrator": ("router", "worker"), "worker": ("router", "orchestrator")}
    for kind in others.get(victim, ("router", "orchestrator")):
        run_step(kind)
    if victim == "cleaner":
        expire_leases()


def expire_leases() -> None:
    from jobs.lease import lease
    from jobs.models import Job
    from webhookhub.db import clock

    lease("lost-worker", BATCH)
    Job.objects.filter(status="Leased").update(lease_until=clock.now() - timedelta(seconds=1))


def kill_at_every_point(victim: str) -> int:
    """Returns the number of killed steps."""
    point = completed = 0
    while completed < COMPLETED_IN_A_ROW:
        point += 1
        in_child(partial(prepare_work, victim))
        completed = completed + 1 if in_child(partial(run_step_and_kill, victim, point)) else 0
    return point - COMPLETED_IN_A_ROW


def main() -> None:
    django.setup()
    gc.freeze()  # shares the loaded code with the children
    sys.stdout.write(json.dumps({kind: kill_at_every_point(kind) for kind in sys.argv[1:]}))


if __name__ == "__main__":
    main()
