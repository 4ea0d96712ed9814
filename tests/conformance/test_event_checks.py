"""An event that a program inserts by SQL is one that the hub can read: its uid, its payload and its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from events import payloads
from events.intake import publish
from events.models import Event
from tests.events.test_payloads import nested
from tests.factories import JobFactory, SagaFactory
from webhookhub.db import clock, vendors
from webhookhub.ids import new_uid

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def lenient_session() -> Iterator[None]:
    """A program's session need not be strict."""
    if not vendors.is_server(connection):
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET @mode = @@sql_mode, sql_mode = ''")
        yield
        cursor.execute("SET sql_mode = @mode")


def insert(table: str, **values: Any) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(values))
        cursor.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", list(values.values()))


def insert_event(**values: Any) -> Event:
    insert("events", **{"event_type": "a", "payload": "{}"} | values)
    return Event.objects.latest("id")


@pytest.mark.parametrize(
    "text", ["", "x", "{", "{'a': 1}", "{a: 1}", "[1,]", "NaN", "01", "{} {}", '{"a": 1', "[" * 31, "\ufeff{}"]
)
def test_a_payload_that_is_not_json_is_refused(text: str):
    with pytest.raises(DatabaseError):
        insert_event(payload=text)
    assert not Event.objects.exists()


@pytest.mark.parametrize("depth", [31, 32, 33, payloads.MAX_DEPTH])
@pytest.mark.parametrize("shape", ["list", "dict"])
def test_a_deep_payload_is_accepted(depth: int, shape: str):
    text = json.dumps(nested(depth, shape))

    assert json.loads(insert_event(payload=text).payload) == nested(depth, shape)
    assert publish("a", nested(depth, shape)).created


@pytest.mark.parametrize(
    "text",
    ['"\\ud83d\\ude00"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"', "-0", "1E+2", "0.5e-3", " [ 1 , 2 ] ", '{"": null}', "true"],
)
def test_every_spelling_of_json_is_accepted(text: str):
    assert json.loads(insert_event(payload=text).payload) == json.loads(text)
    publish("a", payloads.read(text))


@pytest.mark.parametrize(
    "time",
    [
        *("0000-00-00 00:00:00", "2026-00-01 00:00:00", "2026-01-00 00:00:00", "1969-12-31 23:59:59"),
        *("2026-02-30 00:00:00", "2026-13-01 00:00:00", "yesterday", ""),
    ],
)
def test_a_time_that_is_no_date_of_the_calendar_is_refused(time: str):
    with pytest.raises(DatabaseError):
        insert_event(created_at=time)
    assert not Event.objects.exists()


@pytest.mark.parametrize("time", ["2026-11-18 09:39:45", "2026-11-18 23:59:59.999999", "2024-02-29 00:00:00.5"])
def test_a_time_is_accepted(time: str):
    assert insert_event(created_at=time).created_at.isoformat(" ").startswith(time)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("time", ["2026-11-18 09:39:45+99:99", "2026-11-18 09:39:45.x", "2026-11-18", "now", 5])
def test_text_that_is_no_stored_time_is_refused(time: Any):
    with pytest.raises(DatabaseError):
        insert_event(created_at=time)


@pytest.mark.parametrize("uid", ["", "z" * 32, "0" * 31, "-" * 32, "not-a-uid"])
def test_a_uid_that_is_none_is_refused(uid: str):
    with pytest.raises(DatabaseError):
        insert_event(uid=uid)
    assert not Event.objects.exists()


@pytest.mark.parametrize("control", ["\t", "\n", "\x1b", "\x7f", "\x9b"])
def test_a_correlation_id_with_a_control_character_is_refused(control: str):
    with pytest.raises(DatabaseError):
        insert_event(correlation_id=f"a{control}b")
    assert insert_event(correlation_id="é 中 \u200d").correlation_id == "é 中 \u200d"


def test_a_uid_is_accepted():
    uid = new_uid()
    stored = Event._meta.get_field("uid").get_db_prep_value(uid, connection)

    assert insert_event(uid=stored).uid == uid


@pytest.mark.parametrize("wrong", [{"payload_snapshot": "{"}, {"failed_at": "0000-00-00 00:00:00"}])
def test_a_dead_letter_is_readable(wrong: dict[str, str]):
    saga: Any = SagaFactory(status="InProgress", attempt_count=2)
    JobFactory(saga=saga, attempt_no=3, status="Failed")
    columns = {"saga_id": saga.pk, "event_id": saga.event_id, "subscription_id": saga.subscription_id}
    good = {"final_error_code": "timeout", "failed_at": clock.now().replace(tzinfo=None)}
    good["payload_snapshot"] = saga.event.payload
    with pytest.raises(DatabaseError):
        insert("dead_letters", **columns, **good | wrong)
    insert("dead_letters", **columns, **good)
