"""Compiled queries return the same rows as Django's own."""

from __future__ import annotations

import gc
import threading
import weakref
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from sagas.models import Saga
from tests.factories import SagaFactory
from webhookhub.db import clock
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
COLUMNS = ("id", "status", "base_delay", "next_attempt_at", "event__event_type", "event__uid")


def test_the_rows_are_those_of_the_queryset_with_the_same_types():
    sagas = SagaFactory.create_batch(3)
    select = CompiledSelect(lambda ids: Saga.objects.filter(id__in=ids).order_by("id").values_list(*COLUMNS))
    ids = [saga.id for saga in sagas]

    rows = select(ids=ids)

    assert rows == list(Saga.objects.filter(id__in=ids).order_by("id").values_list(*COLUMNS))
    assert len(rows) == 3
    assert isinstance(rows[0][2], timedelta)
    assert rows[0][3].utcoffset() == timedelta(0)


def test_values_and_limits_are_parameters():
    early, late = SagaFactory.create(), SagaFactory.create()
    now = clock.now()
    Saga.objects.filter(id=late.id).update(next_attempt_at=now + timedelta(hours=1))
    due = CompiledSelect(
        lambda status, now, limit: Saga.objects.due(status, now).order_by("id").values_list("id", flat=True)[:limit]
    )

    def rows(status: str, hours: int, limit: int) -> list[Any]:
        return due(status=status, now=now + timedelta(hours=hours), limit=Limit(limit))

    assert rows("Pending", 0, 5) == [(early.id,)]
    assert rows("Pending", 1, 5) == [(early.id,), (late.id,)]
    assert rows("Pending", 1, 1) == [(early.id,)]
    assert rows("Completed", 1, 5) == []


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_list_of_any_length_updates_only_its_rows(count: int):
    sagas = SagaFactory.create_batch(10)
    now = clock.now()
    start = CompiledUpdate(
        lambda ids, now: (
            Saga.objects.filter(id__in=ids, final_error_code=None),
            {"final_error_code": "timeout", "updated_at": now},
        )
    )

    chosen = [saga.id for saga in sagas[:count]]

    assert start(ids=chosen, now=now) == count
    assert start(ids=chosen, now=now) == 0
    assert set(Saga.objects.filter(final_error_code="timeout").values_list("id", flat=True)) == set(chosen)
    assert set(Saga.objects.filter(id__in=chosen).values_list("updated_at", flat=True)) == {now}


def test_lists_of_any_length_share_one_compiled_query():
    built = []

    def build(ids: Any) -> Any:
        built.append(len(ids))
        return Saga.objects.filter(id__in=ids).values_list("id")

    select = CompiledSelect(build)
    for count in (1, 2, 3, 500):
        select(ids=list(range(count)))

    assert built == [1]


def test_a_compiled_query_does_not_keep_the_connection_of_an_ended_thread():
    select = CompiledSelect(lambda ids: Saga.objects.filter(id__in=ids).values_list("id"))
    connections_of_threads = []

    def ask() -> None:
        select(ids=[1])
        connections_of_threads.append(weakref.ref(connections["default"]))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    gc.collect()

    assert [kept() for kept in connections_of_threads] == [None, None]


def test_an_empty_list_is_refused():
    select = CompiledSelect(lambda ids: Saga.objects.filter(id__in=ids).values_list("id"))
    with CaptureQueriesContext(connection) as queries, pytest.raises(ValueError, match="nothing to query"):
        select(ids=[])
    assert not queries.captured_queries
