"""Publishing: validation, idempotency and results."""

from __future__ import annotations

import json
import uuid

import pytest
from django.db import connection, transaction

from events.errors import EventConflict, InvalidEvent
from events.intake import NewEvent, Published, publish, publish_many
from events.models import Event, RoutingInbox

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R3-1.1a", "R3-3.1a")
def test_a_published_event_is_stored_and_waits_to_be_routed():
    published = publish("order.created", {"n": 1}, source="shop", external_id="x-1", correlation_id="c-1")

    event = Event.objects.get()
    assert published == Published(event.id, event.uid, "c-1", True)
    assert (event.event_type, event.source, event.external_id) == ("order.created", "shop", "x-1")
    assert json.loads(event.payload) == {"n": 1}
    assert list(RoutingInbox.objects.values_list("event_id", "event_type")) == [(event.id, "order.created")]


def test_an_event_without_a_correlation_id_is_its_own_correlation():
    published = publish("order.created", {})

    assert published.correlation_id == str(published.uid)
    assert Event.objects.get().correlation_id == str(published.uid)


def test_events_without_an_external_id_are_always_different_events():
    one, two = publish("order.created", {}), publish("order.created", {})

    assert one.uid != two.uid
    assert one.created
    assert two.created


@pytest.mark.requirement("R3-1.2b")
@pytest.mark.parametrize("event_type", ["a", "Order.Created", "order_created-2", "a" * 100])
def test_valid_event_types_are_accepted(event_type: str):
    publish(event_type, {})

    assert Event.objects.get().event_type == event_type


@pytest.mark.requirement("R3-1.2b")
@pytest.mark.parametrize(
    "event_type",
    ["", "a" * 101, "order created", "é", "a\n", None, b"a"],
)
def test_invalid_event_types_are_refused_and_nothing_is_stored(event_type):
    with pytest.raises(InvalidEvent, match=r"^event_type must be 1 to 100"):
        publish(event_type, {})
    assert not Event.objects.exists()


@pytest.mark.parametrize("event_type", ["sagas.completed", "sagacious", "saga-x", "my.saga.completed"])
def test_types_that_only_resemble_reserved_ones_are_accepted(event_type: str):
    assert publish(event_type, {}, source="shop").created


@pytest.mark.parametrize("event_type", ["saga.", "saga", "sAGA.x"])
def test_only_the_hub_may_use_reserved_types(event_type: str):
    with pytest.raises(InvalidEvent, match="reserved for the hub"):
        publish(event_type, {}, source="shop")
    assert not Event.objects.exists()

    [published] = publish_many([NewEvent(event_type, {}, source="hub")], by_hub=True)
    assert isinstance(published, Published)


@pytest.mark.parametrize("source", ["hub", "HUB", "Hub"])
def test_only_the_hub_may_use_its_source(source: str):
    with pytest.raises(InvalidEvent, match=rf"^source is '{source}', which is reserved for the hub") as caught:
        publish("order.created", {}, source=source)

    assert caught.value.field == "source"
    assert not Event.objects.exists()


@pytest.mark.parametrize(("field", "limit"), [("source", 100), ("external_id", 200), ("correlation_id", 200)])
def test_ids_are_bounded_printable_and_trimmed(field: str, limit: int):
    for bad in ["", "a" * (limit + 1), " a", "a ", "a\tb", "a\nb", "a\0b", "a\u200bb", "\ud800", 7, b"a", ["a"]]:
        with pytest.raises(InvalidEvent, match=rf"^{field} must") as caught:
            publish("order.created", {}, **{field: bad})  # type: ignore[arg-type]
        assert caught.value.field == field
    assert not Event.objects.exists()

    for good in ["a", "日本 語", "😀" * limit, "a'b\"c\\%s"]:
        publish("order.created", {}, **{field: good})  # type: ignore[arg-type]
        assert Event.objects.filter(**{field: good}).count() == 1


def test_an_invalid_payload_is_refused_and_nothing_is_stored():
    with pytest.raises(InvalidEvent, match=r"^payload"):
        publish("order.created", {"n": float("nan")})
    assert not Event.objects.exists()
    assert not RoutingInbox.objects.exists()


@pytest.mark.requirement("R3-1.3c")
def test_the_same_external_id_and_body_return_the_first_event():
    first = publish("order.created", {"a": 1, "b": [1.5, "é"]}, source="shop", external_id="x", correlation_id="c")
    again = publish("order.created", {"b": [1.5, "é"], "a": 1}, source="shop", external_id="x", correlation_id="d")

    assert again == Published(first.id, first.uid, "c", False)
    assert Event.objects.count() == 1
    assert RoutingInbox.objects.count() == 1


@pytest.mark.parametrize(
    ("event_type", "payload"), [("order.created", {"n": 2}), ("order.changed", {"n": 1}), ("Order.created", {"n": 1})]
)
def test_the_same_external_id_with_another_body_or_type_is_a_conflict_that_names_the_event(event_type, payload):
    first = publish("order.created", {"n": 1}, source="shop", external_id="x")

    with pytest.raises(EventConflict, match=str(first.uid)) as caught:
        publish(event_type, payload, source="shop", external_id="x")

    assert (caught.value.source, caught.value.external_id, caught.value.uid) == ("shop", "x", str(first.uid))
    assert Event.objects.count() == 1
    assert json.loads(Event.objects.get().payload) == {"n": 1}


@pytest.mark.parametrize("other", [("bank", "x"), ("shop", "X"), ("Shop", "x"), ("shop", "x́")])
def test_another_source_or_spelling_is_another_event(other: tuple[str, str]):
    publish("order.created", {"n": 1}, source="shop", external_id="x")

    assert publish("order.created", {"n": 2}, source=other[0], external_id=other[1]).created


def test_each_event_of_a_mixed_batch_has_its_own_result():
    stored = publish("order.created", {"n": 0}, external_id="old")

    results = publish_many(
        [
            NewEvent("order.created", {"n": 1}, external_id="new"),
            NewEvent("bad type", {}),
            NewEvent("order.created", {"n": 1}, external_id="new"),
            NewEvent("order.created", {"n": 2}, external_id="new"),
            NewEvent("order.created", {"n": 0}, external_id="old"),
            NewEvent("order.created", {"n": 9}, external_id="old"),
            NewEvent("order.created", {"n": float("inf")}),
            NewEvent("order.created", {"n": 3}),
            NewEvent("order.created", {"n": 1}, source="other", external_id="new"),
        ]
    )

    new, bad_type, repeated, conflict, old, old_conflict, bad_payload, plain, other_source = results
    assert isinstance(new, Published)
    assert new.created
    assert isinstance(bad_type, InvalidEvent)
    assert bad_type.field == "event_type"
    assert repeated == Published(new.id, new.uid, new.correlation_id, False)
    assert isinstance(conflict, EventConflict)
    assert conflict.uid == str(new.uid)
    assert old == Published(stored.id, stored.uid, stored.correlation_id, False)
    assert isinstance(old_conflict, EventConflict)
    assert old_conflict.uid == str(stored.uid)
    assert isinstance(bad_payload, InvalidEvent)
    assert bad_payload.field == "payload"
    assert isinstance(plain, Published)
    assert plain.created
    assert isinstance(other_source, Published)
    assert other_source.created
    assert Event.objects.count() == RoutingInbox.objects.count() == 4


def test_many_events_at_once_keep_their_order():
    results = publish_many([NewEvent("order.created", {"n": n}) for n in range(50)])

    ids = [result.id for result in results if isinstance(result, Published)]
    assert len(ids) == 50
    stored = dict(Event.objects.values_list("id", "payload"))
    assert [json.loads(stored[event_id])["n"] for event_id in ids] == list(range(50))


def test_publishing_no_events_is_no_error():
    assert publish_many([]) == []
    assert not Event.objects.exists()


def test_publishing_inside_a_transaction_that_is_rolled_back_leaves_nothing():
    with transaction.atomic():
        publish("order.created", {"n": 1}, external_id="x")
        assert RoutingInbox.objects.count() == 1
        transaction.set_rollback(True)

    assert not Event.objects.exists()
    assert not RoutingInbox.objects.exists()

    assert publish("order.created", {"n": 2}, external_id="x").created


def test_a_row_inserted_by_another_program_gets_an_identity_and_is_routed():
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO events (event_type, source, payload) VALUES ('order.created', 'legacy', '{}')")

    event = Event.objects.get()
    assert isinstance(event.uid, uuid.UUID)
    assert event.created_at is not None
    assert RoutingInbox.objects.get().event_id == event.id


def test_a_batch_too_long_for_one_statement_is_stored_in_several():
    text = "x" * 250_000
    events = [NewEvent("order.created", text, external_id=str(n) if n % 2 else None) for n in range(100)]

    results = publish_many(events)

    assert [result.created for result in results if isinstance(result, Published)] == [True] * 100
    assert Event.objects.count() == RoutingInbox.objects.count() == 100
