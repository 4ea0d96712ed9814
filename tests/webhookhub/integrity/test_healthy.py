"""The integrity check finds nothing in valid data, whatever the hub is doing, and writes nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.models import Saga
from tests.conformance import world
from tests.conformance.rivals import Rival
from tests.factories import JobFactory
from webhookhub.db import vendors
from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.checks import ALL
from webhookhub.integrity.tables import EVENTS, INBOX, JOBS, LETTERS, REQUEUES, SAGAS

from .population import populate
from .support import audit

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
ROW_CHECKS = [check.name for check in ALL if isinstance(check, RowCheck)]


def test_nothing_is_found_in_an_empty_database():
    assert audit() == {}


def test_nothing_is_found_or_written_or_locked_while_deliveries_are_in_every_state():
    populate()
    statements: list[str] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(" ".join(sql.split()).upper())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        assert audit() == {}

    assert len(statements) > len(ALL)
    for statement in statements:
        assert re.match(r"SELECT|WITH|SHOW|PRAGMA", statement), statement
        assert not re.search(r"FOR UPDATE|FOR SHARE|LOCK IN|LOCK TABLE|INTO OUTFILE", statement), statement


def test_nothing_is_found_when_all_deliveries_have_ended():
    populate()
    world.run_to_end()
    assert audit(*ROW_CHECKS) == {}


@pytest.mark.requirement("R4-2.1b")
@pytest.mark.parametrize("step", ["INSERT INTO webhook_delivery_jobs", "UPDATE webhook_delivery_sagas"])
def test_nothing_is_found_between_the_two_statements_of_a_dispatch(committed: None, step: str):
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    with Rival(lambda: dispatch(10), after=step) as rival:
        rival.reached()
        assert audit(*ROW_CHECKS) == {}
        rival.result()
    assert Saga.objects.get().status == "InProgress"


@pytest.mark.requirement("R2-3.1i")
@pytest.mark.requirement("R4-2.1b")
@pytest.mark.parametrize("step", ["INSERT INTO dead_letters", "UPDATE webhook_delivery_sagas"])
def test_nothing_is_found_between_the_statements_of_a_settlement(committed: None, step: str):
    world.subscribe("ok", "dead")
    world.publish_some("a")
    world.route()
    dispatch(10)
    world.deliver()
    with Rival(world.settle, after=step) as rival:
        rival.reached()
        assert audit(*ROW_CHECKS) == {}
        rival.result()
    assert audit(*ROW_CHECKS) == {}
    assert not Job.objects.filter(settled_at__isnull=True).exists()


def test_a_row_that_is_valid_when_read_again_is_not_reported(monkeypatch: pytest.MonkeyPatch):
    job = JobFactory.create(status="Leased")
    looks: list[float] = []

    class Healing:
        def wait(self, seconds: float) -> None:
            looks.append(seconds)
            Job.objects.filter(id=job.id).update(lease_token="t", worker_id="w", lease_until="2999-01-01T00:00:00Z")

    assert audit("leased-jobs")["leased-jobs"].found == 1
    monkeypatch.setattr("webhookhub.integrity.check.Event", Healing)
    assert audit("leased-jobs") == {}
    assert len(looks) == 1


@pytest.mark.parametrize("rows", ["none", pytest.param("some", marks=pytest.mark.mysql_family)])
def test_no_statement_reads_a_whole_table_for_each_row(committed: None, rows: str):
    """Whatever the statistics say, which are those of an empty table right after a bulk load: each batch is a range of
    the primary key, and all else is looked up by an index."""
    with connection.cursor() as cursor:
        for table in {each.name for each in (SAGAS, JOBS, LETTERS, REQUEUES, EVENTS, INBOX)} | {"subscriptions"}:
            if vendors.is_server(connection):
                cursor.execute(f"ANALYZE TABLE {table}")
                cursor.fetchall()
    populate()
    if rows == "some" and vendors.is_server(connection):
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE TABLE webhook_delivery_sagas, webhook_delivery_jobs")
            cursor.fetchall()
    plans: dict[str, list[dict[str, Any]]] = {}

    def watch(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if isinstance(params, dict):
            plans[sql] = explain(sql, params)
        return run(sql, params, many, context)

    with connection.execute_wrapper(watch):
        audit(*ROW_CHECKS, batch_size=10_000)

    assert len(plans) == len(ROW_CHECKS)
    for sql, plan in plans.items():
        if vendors.is_server(connection):
            # Where the batch is all there is, a range and the whole of the key are the same.
            assert (plan[0]["type"] in ("range", "index"), plan[0]["key"]) == (True, "PRIMARY"), (sql, plan)
            assert {step["type"] for step in plan[1:]} <= {"ref", "eq_ref"}, (sql, plan)
        elif "FROM routing_inbox" not in sql and "FROM workflow_inbox" not in sql:
            # An inbox's key is not the one by which the embedded database keeps its rows; there it is never large.
            # "MULTI-INDEX OR" and its "INDEX n": a look-up in each of several indexes.
            looked_up = ("SEARCH", "CORRELATED", "MULTI-INDEX OR", "INDEX ")
            assert all(step["detail"].startswith(looked_up) for step in plan), (sql, plan)


def explain(sql: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    verb = "EXPLAIN" if vendors.is_server(connection) else "EXPLAIN QUERY PLAN"
    if vendors.is_server(connection) and not vendors.is_mariadb(connection):
        verb = "EXPLAIN FORMAT=TRADITIONAL"  # newer ones answer with a tree
    with connection.cursor() as cursor:
        cursor.cursor.execute(f"{verb} {sql}", params)  # past the wrapper that watches
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.cursor.fetchall()]
