"""The console on a seeded database: rows that the audit accepts, few queries a page, and no plan that reads a table
that grows from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deadletters.models import DeadLetter, Requeue
from jobs.models import Job
from sagas.models import Saga
from tests.conftest import empty_tables
from tools.bench.pages import MOST_QUERIES, addresses
from tools.bench.seed_bulk import Sizes, seed

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db(transaction=True)]

SIZES = Sizes(sagas=12_000, dead=600, retried=1500, waiting=400, requeued=100, subscriptions=7)
GROWING = re.compile(r"events|webhook_delivery_sagas|webhook_delivery_jobs|dead_letters|audit_log_entries")

# Django asks for all rows of a list that has no second page.
A_PAGE = 200


@pytest.fixture
def seeded(transactional_db: None) -> Iterator[None]:
    seed(SIZES)
    yield
    empty_tables()


def plan_faults(sql: str) -> list[str]:
    """Tables that grow and would be read from end to end.

    Along an index up to a LIMIT is no such thing, unless rows are left out on the way or all are sorted first; nor
    is a statement that names its rows one by one, which in so small a table may be nearly all of them.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}", None)
        columns = [column[0].lower() for column in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    if " IN (" in sql:
        return []
    return [
        f"{row['table']} {row['type']} {row['key']} {row['extra']}: {sql[:300]}"
        for row in rows
        if GROWING.fullmatch(str(row["table"]))
        and str(row["type"]) in ("ALL", "index")
        and int(row["rows"]) > A_PAGE
        and ("LIMIT" not in sql or re.search("Using where|filesort", str(row["extra"])))
    ]


def test_the_console_stays_within_its_bounds_on_rows_that_the_audit_accepts(seeded: None):
    assert (Saga.objects.count(), DeadLetter.objects.count()) == (SIZES.sagas + SIZES.requeued, SIZES.dead)
    assert abs(Job.objects.count() - SIZES.jobs - SIZES.requeued) <= SIZES.waiting
    assert Requeue.objects.count() == SIZES.requeued
    call_command("audit", stdout=StringIO())  # it would raise

    user = User.objects.create_user("anna", is_staff=True)
    user.groups.set(Group.objects.all())  # not a superuser: permissions are queries too
    client = Client()
    client.force_login(user)
    too_many, faults = [], []
    for name, address in addresses():
        with CaptureQueriesContext(connection) as captured:
            status = client.get(address).status_code
        asked = [query["sql"] for query in captured.captured_queries]
        if status == 403:
            continue  # not for any of the groups
        assert status == 200, (name, status)
        if len(asked) > MOST_QUERIES:
            too_many.append((name, len(asked)))
        for sql in asked:
            if sql.lstrip().upper().startswith(("SELECT", "WITH")):
                faults += [f"{name}: {fault}" for fault in plan_faults(sql)]
    assert too_many == []
    assert not faults, "\n".join(faults)
