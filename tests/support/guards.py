"""The triggers that hold the state machine, switched off where tests store rows that no legal step leads to.

A server commits when a trigger is dropped, so they are switched between the modules of tests, not within a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from tools.support.guards import STATE_MACHINE
from webhookhub.db.triggers import Trigger, declared

# Pages, filters and lists: each test stores the row that it wants to see, such as the third attempt without the first.
SEEDED = (
    "tests/api/",
    "tests/browser/test_dead_letters.py",
    "tests/browser/test_delivery.py",
    "tests/deadletters/",
    "tests/nightly/pages/",
    "tests/webhookhub/console/",
    "tests/workflows/",
)

_are_on = True


def are_on() -> bool:
    return _are_on


def switch_for(module: str) -> None:
    """Switch the guards as the tests of this module, a path below the repository, need them."""
    switch(on=not module.startswith(SEEDED))


def switch(*, on: bool) -> None:
    global _are_on
    if on == _are_on:
        return
    with connection.cursor() as cursor:
        for trigger in state_machine():
            cursor.execute(trigger.create_sql(connection) if on else f"DROP TRIGGER {trigger.name}", None)
    _are_on = on


@contextmanager
def switched_off() -> Iterator[None]:
    """Not within a transaction."""
    before = are_on()
    switch(on=False)
    try:
        yield
    finally:
        switch(on=before)


def state_machine() -> list[Trigger]:
    return [trigger for trigger in declared() if trigger.name in STATE_MACHINE]
