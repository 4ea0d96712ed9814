"""What the steps of the pipeline write in one transaction, and what they read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.db import connection, transaction

from . import world
from .crashes import statements_of
from .rivals import unquoted
from .steps import STEPS, Step

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

TABLES = ("events", "webhook_delivery_sagas", "webhook_delivery_jobs", "dead_letters")
# A trigger on this table inserts into another one.
BY_TRIGGER = {"dead_letter_requeues": "webhook_delivery_sagas"}
# A server updates many rows by joining them to a list of values.
WRITE = re.compile(
    rf"(?:INSERT INTO|DELETE(?: FROM)?|UPDATE(?: .* STRAIGHT_JOIN)?) ({'|'.join([*TABLES, *BY_TRIGGER])})\b", re.DOTALL
)
# Of these steps, only the insert of a dead letter may name a payload: the database copies it.
BLIND = [step for step in STEPS if step.name.startswith(("route", "dispatch", "settle"))]

numbers = count(1)


def tables_by_transaction(work: Callable[[], object]) -> list[set[str]]:
    """The tables of the specification that each transaction writes; a statement outside one is one of its own."""
    written: list[set[str]] = []
    is_open = False

    def close() -> None:
        nonlocal is_open
        is_open = False

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal is_open
        if not is_open:
            written.append(set())
            if connection.in_atomic_block:
                is_open = True
                transaction.on_commit(close)
        if match := WRITE.match(unquoted(sql)):
            written[-1].add(BY_TRIGGER.get(match[1], match[1]))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        work()
    return [tables for tables in written if tables]


@pytest.mark.requirement("R4-2.1c")
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_transaction_changes_one_of_events_sagas_jobs_and_dead_letters(step: Step):
    written = tables_by_transaction(step.prepare(f"transactions{next(numbers)}"))

    # They remove events from the inbox, and write a request.
    assert written or step.name in ("route beside another", "request")
    assert [tables for tables in written if len(tables) > 1] == []


@pytest.mark.requirement("R1-4.2e", "R3-3.4e")
@pytest.mark.parametrize("step", BLIND, ids=str)
def test_routing_and_orchestration_read_no_payload(step: Step):
    statements = statements_of(step.prepare(f"payloads{next(numbers)}"))

    naming = [statement.sql for statement in statements if "payload" in statement.sql]
    assert len(statements) >= 2
    assert [sql for sql in naming if not sql.startswith("INSERT INTO dead_letters")] == []
    world.run_to_end()
