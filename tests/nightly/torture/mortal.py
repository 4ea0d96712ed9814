"""`python -m tests.nightly.torture.mortal KIND …`: turns of a loop, each in a process that is killed (-9) at another
point:
before its first statement, before its second, and so on, and after each that writes (which a transaction has not
committed yet).

Before each turn there is new work, and the other loops do theirs unharmed. Prints how many turns died.
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
# Turns differ in length: when so many in a row come to their end, there is no later point to die at.
SURVIVORS = 3


def in_child(work: Callable[[], None]) -> bool:
    """Whether `work`, done in a process of its own, came to its end; killed is the only other way."""
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
        raise SystemExit(f"a turn ended with {code}")
    return code == 0


def turn(kind: str) -> None:
    from django.core.management import get_commands, load_command_class

    name = f"run_{kind}"
    command: Any = load_command_class(str(get_commands()[name]), name)
    step = command.make_step(f"{kind}:{os.getpid()}")
    step.run(BATCH)
    while step.waits_for():
        step.finish(BATCH)


def mortal_turn(kind: str, deadly: int) -> None:
    from django.db import connection

    points = 0

    def pass_point() -> None:
        nonlocal points
        points += 1
        if points == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(execute: Any, sql: str, *arguments: Any) -> Any:
        pass_point()
        result = execute(sql, *arguments)
        if not sql.startswith("SELECT"):
            pass_point()
        return result

    with connection.execute_wrapper(around):
        turn(kind)


def feed(victim: str) -> None:
    """New events, brought as far as the victim's work."""
    from events.intake import NewEvent, publish_many

    publish_many([NewEvent("order.created", {}), NewEvent("order.refused", {})])
    others = {"router": (), "orchestrator": ("router", "worker"), "worker": ("router", "orchestrator")}
    for kind in others.get(victim, ("router", "orchestrator")):
        turn(kind)
    if victim == "cleaner":
        abandon_jobs()


def abandon_jobs() -> None:
    from jobs.lease import lease
    from jobs.models import Job
    from webhookhub.db import clock

    lease("nobody", BATCH)
    Job.objects.filter(status="Leased").update(lease_until=clock.now() - timedelta(seconds=1))


def die_everywhere(victim: str) -> int:
    """Returns how many turns were killed."""
    deadly = survivors = 0
    while survivors < SURVIVORS:
        deadly += 1
        in_child(partial(feed, victim))
        survived = in_child(partial(mortal_turn, victim, deadly))
        survivors = survivors + 1 if survived else 0
    return deadly - SURVIVORS


def main() -> None:
    django.setup()
    gc.freeze()  # what is loaded so far is shared with the children, and not looked through in each
    sys.stdout.write(json.dumps({kind: die_everywhere(kind) for kind in sys.argv[1:]}))


if __name__ == "__main__":
    main()
