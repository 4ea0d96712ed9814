"""The console on a seeded database: consistent rows, few queries per page, and no full scan of a growing table."""

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
from tools.bench.pages import MAX_QUERIES, urls
from tools.bench.seed_bulk import Sizes, seed

pytestmark = [pytest.mark.mysql_family, pytest.mark.django_db(transaction=True)]

SIZES = Sizes(sagas=12_000, dead=600, retried=1500, waiting=400, requeued=100, subscriptions=7)
GROWING = re.compile(r"events|webhook_delivery_sagas|webhook_delivery_jobs|dead_letters|audit_log_entries")

PORTION = re.compile(r"WHERE 1 = 1 AND id <= \d+ ORDER BY failed_at ASC, id ASC LIMIT \d+$")

# Django selects all rows of a list that fits on one page.
PAGE_SIZE = 200


@pytest.fixture
def seeded(transactional_db: None) -> Iterator[None]:
    seed(SIZES)
    yield
    empty_tables()


def full_scans(sql: str) -> list[str]:
    """Full scans of growing tables.

    A scan along an index up to a LIMIT is allowed, unless it skips rows or sorts all of them first. So is a statement
    that names its rows one by one, which may be nearly all of such a small table, and the portions of a bulk requeue:
    their condition skips only dead letters that were added since the search started.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}", None)
        columns = [column[0].lower() for column in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    if " IN (" in sql or PORTION.search(sql):
        return []
    return [
        f"{row['table']} {row['type']} {row['key']} {row['extra']}: {sql[:300]}"
        for row in rows
        if GROWING.fullmatch(str(row["table"]))
        and str(row["type"]) in ("ALL", "index")
        and int(row["rows"]) > PAGE_SIZE
        and ("LIMIT" not in sql or re.search("Using where|filesort", str(row["extra"])))
    ]


def test_pages_need_few_queries_and_no_full_scan(seeded: None):
    assert (Saga.objects.count(), DeadLetter.objects.count()) == (SIZES.sagas + SIZES.requeued, SIZES.dead)
    assert abs(Job.objects.count() - SIZES.jobs - SIZES.requeued) <= SIZES.waiting
    assert Requeue.objects.count() == SIZES.requeued
    call_command("audit", stdout=StringIO())  # raises if there is a violation

    user = User.objects.create_user("anna", is_staff=True)
    user.groups.set(Group.objects.all())  # not a superuser, because permissions need queries, too
    client = Client()
    client.force_login(user)
    too_many, scans = [], []
    for name, url in urls():
        with CaptureQueriesContext(connection) as captured:
            status = client.get(url).status_code
        queries = [query["sql"] for query in captured.captured_queries]
        if status == 403:
            continue  # no group may open it
        assert status == 200, (name, status)
        if len(queries) > MAX_QUERIES:
            too_many.append((name, len(queries)))
        for sql in queries:
            if sql.lstrip().upper().startswith(("SELECT", "WITH")):
                scans += [f"{name}: {scan}" for scan in full_scans(sql)]
    assert too_many == []
    assert not scans, "\n".join(scans)
