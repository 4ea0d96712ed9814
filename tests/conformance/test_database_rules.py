"""What the database itself refuses to every program: keys, checks and immutable rows. The state machine has a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, models, transaction

from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from events.intake import publish
from events.models import DEFAULT_SOURCE, Event, RoutingInbox
from jobs.models import Job
from sagas.create import correlation_ids
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import guards, legal_steps
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.ids import new_uid

from . import world

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@contextmanager
def refused(kind: type[DatabaseError] = DatabaseError, match: str | None = None) -> Iterator[None]:
    with pytest.raises(kind, match=match), transaction.atomic():
        yield


def execute(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


# Keys and checks


@pytest.mark.requirement("R1-5.2a", "R1-5.2b", "R1-7.1a")
def test_a_saga_has_one_active_job(committed: None):
    job = JobFactory.create(attempt_no=1)
    at = job.attempt_at + timedelta(seconds=1)
    with guards.switched_off():  # the state machine does not come to this key
        with refused(IntegrityError):
            Job.objects.create(saga=job.saga, attempt_no=2, attempt_at=at)
        Job.objects.filter(id=job.id).update(status="Leased")
        with refused(IntegrityError):
            Job.objects.create(saga=job.saga, attempt_no=2, attempt_at=at)
        Job.objects.filter(id=job.id).update(status="Failed", error_code="timeout", finished_at=clock.now())
        Job.objects.create(saga=job.saga, attempt_no=2, attempt_at=at)


@pytest.mark.requirement("R2-2.3d", "R2-2.3e", "R2-5.2a")
@pytest.mark.parametrize(
    ("before", "result"),
    [
        ("Pending", {"status": "Completed", "finished_at": clock.now}),
        ("Pending", {"status": "Failed", "error_code": "timeout", "finished_at": clock.now}),
        ("Leased", {"status": "Failed", "finished_at": clock.now}),
        ("Leased", {"status": "Failed", "error_code": "timeout"}),
        ("Leased", {"status": "Completed"}),
        ("Leased", {"status": "Completed", "error_code": "timeout", "finished_at": clock.now}),
    ],
)
def test_a_result_comes_from_a_lease_and_is_complete(before: str, result: dict[str, Any]):
    job = JobFactory.create(status=before)
    values = {name: value() if callable(value) else value for name, value in result.items()}

    with refused(DatabaseError, "only by a legal transition" if before == "Pending" else "A result has its time"):
        Job.objects.filter(id=job.id).update(**values)

    job.refresh_from_db()
    assert job.status == before


@pytest.mark.requirement("R1-7.1b")
@pytest.mark.requirement("R2-2.1k")
@pytest.mark.requirement("R4-3.2a")
def test_each_attempt_of_a_saga_has_one_job_even_after_it_has_finished():
    job = JobFactory.create(status="Completed")
    with refused(IntegrityError):
        Job.objects.create(saga=job.saga, attempt_no=job.attempt_no, attempt_at=clock.now() + timedelta(seconds=1))


def test_two_attempts_of_a_saga_have_different_times(committed: None):
    job = JobFactory.create(status="Failed")
    with guards.switched_off():  # the state machine demands more, that each is later than the one before
        with refused(IntegrityError):
            Job.objects.create(saga=job.saga, attempt_no=2, attempt_at=job.attempt_at)
        Job.objects.create(saga=job.saga, attempt_no=2, attempt_at=job.attempt_at - timedelta(microseconds=1))


@pytest.mark.requirement("R1-2.2d", "R1-2.3a")
@pytest.mark.requirement("R4-3.2a")
def test_an_event_a_subscription_and_a_generation_have_one_saga():
    saga = SagaFactory.create(status="Completed")
    with refused(IntegrityError):
        SagaFactory(event=saga.event, subscription=saga.subscription)
    SagaFactory(event=saga.event, subscription=saga.subscription, generation=1)


@pytest.mark.requirement("R3-1.3c")
@pytest.mark.requirement("R4-3.2a")
def test_a_source_and_an_external_id_have_one_event():
    EventFactory(source="shop", external_id="1")
    with refused(IntegrityError):
        EventFactory(source="shop", external_id="1")
    EventFactory(source="other shop", external_id="1")
    EventFactory(source="shop", external_id=None)
    EventFactory(source="shop", external_id=None)


def test_a_public_id_is_used_once():
    event = EventFactory.create()
    with refused(IntegrityError):
        EventFactory(uid=event.uid)


@pytest.mark.requirement("R4-3.2a")
def test_an_address_is_subscribed_to_an_event_type_once():
    subscription = SubscriptionFactory.create()
    with refused(IntegrityError):
        SubscriptionFactory(event_type=subscription.event_type, callback_url=subscription.callback_url)


@pytest.mark.requirement("R2-3.1b")
@pytest.mark.requirement("R4-3.2a")
def test_a_saga_has_one_dead_letter_and_a_dead_letter_one_requeue():
    end_of_everything()
    for table, reference in (("dead_letters", "saga_id"), ("dead_letter_requeues", "dead_letter_id")):
        model: type[models.Model] = DeadLetter if table == "dead_letters" else Requeue
        columns = [field.column for field in model._meta.concrete_fields if not field.primary_key]
        listed = ", ".join(columns)
        assert reference in columns
        with refused(IntegrityError):
            execute(f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {table}")


@pytest.mark.requirement("R1-6.1a", "R1-7.3c")
def test_a_saga_at_its_limit_cannot_wait_for_a_retry():
    saga = SagaFactory.create(status="InProgress", attempt_count=2, max_retry_limit=3)
    JobFactory(saga=saga, attempt_no=3, status="Failed")
    with refused(match="chk_saga_retry_below_limit"):
        Saga.objects.filter(id=saga.id).update(status="PendingRetry", attempt_count=3)
    legal_steps.dead_letter(saga)
    Saga.objects.filter(id=saga.id).update(status="DeadLettered", attempt_count=3)


@pytest.mark.requirement("R1-6.1a")
def test_a_retry_limit_is_at_least_one_attempt():
    saga, subscription = SagaFactory.create(), SubscriptionFactory.create()
    with refused(match="chk_saga_limit_positive"):
        SagaFactory(max_retry_limit=0)
    for limit in (1, None):
        Subscription.objects.filter(id=subscription.id).update(max_retry_limit=limit)
    with refused(match="chk_sub_limit_positive"):
        Subscription.objects.filter(id=subscription.id).update(max_retry_limit=0)
    assert Saga.objects.get() == saga


@pytest.mark.requirement("R1-2.1d", "R1-3a")
@pytest.mark.requirement("R2-2.1c")
@pytest.mark.parametrize("word", ["Lost", "pending", ""])
def test_an_unknown_status_is_refused(word):
    job = JobFactory.create()
    for table, id in (("webhook_delivery_sagas", job.saga_id), ("webhook_delivery_jobs", job.id)):
        with refused():
            execute(f"UPDATE {table} SET status = %s WHERE id = %s", word, id)


def test_identifiers_that_differ_in_letter_case_are_different():
    first = publish("order.created", {"n": 1}, external_id="Order-1")
    second = publish("order.created", {"n": 2}, external_id="order-1")
    third = publish("order.created", {"n": 3}, external_id="order-1", source="Default")
    fourth = publish("order.created", {"n": 4}, external_id="örder-1")
    fifth = publish("order.created", {"n": 5}, external_id="Örder-1")
    results = [first, second, third, fourth, fifth]
    assert all(result.created for result in results)
    assert Event.objects.get(external_id="Order-1").id == first.id


@pytest.mark.requirement("R3-3.2a")
def test_an_event_type_that_differs_in_letter_case_is_another_type():
    SubscriptionFactory(event_type="Order.Created", callback_url=world.url("ok"))
    lower = SubscriptionFactory.create(event_type="order.created", callback_url=world.url("ok"))
    publish("order.created", {})
    world.route()
    assert Saga.objects.get().subscription_id == lower.id
    assert Subscription.objects.filter(event_type="order.created").count() == 1


@pytest.mark.requirement("R3-1.2c", "R3-3.1a")
@pytest.mark.parametrize("columns", ["", ", correlation_id, source"])
def test_an_event_inserted_by_another_program_is_complete_and_routed(columns: str):
    SubscriptionFactory()
    values = ", '', 'default'" if columns else ""
    execute(f"INSERT INTO events (event_type, payload{columns}) VALUES ('order.created', '{{}}'{values})")
    event = Event.objects.get()
    assert event.uid.int != 0
    assert event.source == DEFAULT_SOURCE
    assert event.correlation_id == str(event.uid)
    assert event.created_at is not None
    assert RoutingInbox.objects.get().event_id == event.id
    assert world.route() == 1
    assert Saga.objects.get().event_id == event.id
    assert set(correlation_ids.of([Saga.objects.get().id]).values()) == {str(event.uid)}
    with refused(match="An event is immutable"):
        execute("UPDATE events SET correlation_id = ''")


def test_the_uid_and_the_correlation_id_of_another_program_are_kept():
    uid = new_uid()
    stored = Event._meta.get_field("uid").get_db_prep_value(uid, connection)
    execute("INSERT INTO events (uid, event_type, payload) VALUES (%s, 'order.created', '{}')", stored)
    execute("INSERT INTO events (event_type, payload, correlation_id) VALUES ('order.paid', '{}', 'checkout-7')")
    assert Event.objects.get(event_type="order.created").correlation_id == str(uid)
    assert Event.objects.get(event_type="order.paid").correlation_id == "checkout-7"


# Immutability


def end_of_everything() -> None:
    """One row of every kind that may not change any more."""
    world.subscribe("ok", "dead")
    world.publish_some("a")
    world.route()
    world.run_to_end()
    requeue([DeadLetter.objects.get().id], by=world.Staff(), reason="again")


def change(field: models.Field) -> object:  # type: ignore[type-arg]
    """A value that the column does not hold."""
    match field:
        case models.UUIDField():
            return "0" * 32
        case models.DateTimeField():
            return "2001-01-01 00:00:00"
        case models.DurationField():
            return timedelta(days=3) // timedelta(microseconds=1)
        case models.IntegerField() | models.ForeignKey():
            return 987654
        case _:
            return '{"other": 1}'


FINAL: list[tuple[type[models.Model], dict[str, str], str]] = [
    (Event, {}, "An event is immutable"),
    (Saga, {"status": "Completed"}, "A Completed or DeadLettered saga is final"),
    (Saga, {"status": "DeadLettered"}, "A Completed or DeadLettered saga is final"),
    (Job, {"status": "Completed"}, "A Completed or Failed job is final"),
    (Job, {"status": "Failed"}, "A Completed or Failed job is final"),
    (DeadLetter, {}, "A dead letter is immutable"),
    (Requeue, {}, "The record of a requeue is immutable"),
]
GENERATED = {"active_saga_id", "parked_subscription_id"}
KEYS: dict[type[models.Model], tuple[str, ...]] = {
    Event: ("source", "external_id"),
    Saga: ("event_id", "subscription_id", "generation"),
    DeadLetter: ("saga_id",),
    Requeue: ("dead_letter_id",),
}
IDS = [f"{model.__name__} {''.join(where.values())}".strip() for model, where, _ in FINAL]
final_rows = pytest.mark.parametrize(("model", "where", "message"), FINAL, ids=IDS)


@pytest.mark.requirement("R1-5.4b", "R1-5.4c", "R1-5.5b", "R1-7.1b", "R1-7.4c", "R1-9a", "R1-10.2b")
@pytest.mark.requirement("R2-3.1b", "R2-3.1j")
@pytest.mark.requirement("R3-1.1a", "R3-1.2d", "R3-1.3a")
@final_rows
def test_no_column_of_a_final_row_can_be_changed(model, where, message):
    end_of_everything()
    row = model.objects.get(**where)
    table = model._meta.db_table
    before = model.objects.filter(pk=row.pk).values().get()
    for field in model._meta.concrete_fields:
        if field.generated:
            continue
        value = "Pending" if field.column == "status" else change(field)
        with refused(match="refused"):
            execute(f"UPDATE {table} SET {field.column} = %s WHERE id = %s", value, row.pk)
    assert model.objects.filter(pk=row.pk).values().get() == before


@pytest.mark.requirement("R1-5.4b", "R1-5.5b")
@final_rows
def test_the_models_cannot_change_a_final_row_either(model, where, message):
    end_of_everything()
    row = model.objects.get(**where)
    text = {Event: "payload", Saga: "final_error_code", DeadLetter: "final_error_code", Requeue: "reason"}
    name = text.get(model, "error_code")
    before = list(model.objects.order_by("pk").values())
    with refused(match=message):
        model.objects.filter(pk=row.pk).update(**{name: '{"n":2}'})
    setattr(row, name, '{"n":2}')
    with refused(match=message):
        row.save()
    with refused(match=message):
        row.save(update_fields=[name])
    with refused(match=message):
        model.objects.bulk_update([row], [name])
    assert list(model.objects.order_by("pk").values()) == before


@pytest.mark.parametrize(
    ("model", "column"),
    [
        (Event, "source"),
        (Saga, "final_error_code"),
        (Job, "error_code"),
        (DeadLetter, "final_error_code"),
        (Requeue, "reason"),
        (Requeue, "requested_by"),
    ],
)
def test_not_even_the_letter_case_of_a_final_row_can_be_changed(model, column):
    end_of_everything()
    row = model.objects.filter(**{f"{column}__isnull": False}).latest("id")
    value = getattr(row, column)
    assert value != value.upper()
    with refused(match="refused"):
        model.objects.filter(pk=row.pk).update(**{column: value.upper()})


@pytest.mark.requirement("R2-3.1j")
@pytest.mark.requirement("R3-1.1a", "R3-1.3a")
@final_rows
def test_a_final_row_cannot_be_deleted(model, where, message):
    end_of_everything()
    row = model.objects.get(**where)
    with refused(match="DELETE refused"):
        execute(f"DELETE FROM {model._meta.db_table} WHERE id = %s", row.pk)
    with refused(match="DELETE refused"):
        model.objects.filter(pk=row.pk)._raw_delete(model.objects.db)
    with refused(match="DELETE refused"):
        model.objects.filter(pk=row.pk).delete()
    with refused(match="DELETE refused"):
        model.objects.get(**where).delete()
    assert model.objects.filter(pk=row.pk).exists()


@pytest.mark.requirement("R3-3.2b")
@pytest.mark.parametrize(("model", "where"), [(model, where) for model, where, _ in FINAL if model is not Job])
def test_creating_a_final_row_again_passes_and_changes_nothing(model, where):
    end_of_everything()
    row = model.objects.filter(**where).values().get()
    again = {name: value for name, value in row.items() if name not in {"id", *GENERATED}}
    if model is Saga:
        again |= {"status": "Pending", "attempt_count": 0}
    insert_new(model, [again], key=KEYS[model])
    assert model.objects.filter(**where).values().get() == row


def test_an_update_to_the_same_values_passes():
    end_of_everything()
    for model, where, _ in FINAL:
        row = model._default_manager.get(**where)
        assert model._default_manager.filter(pk=row.pk).update(id=row.pk) == 1


@pytest.mark.parametrize("status", ["Pending", "Leased"])
def test_an_unfinished_job_is_not_settled(committed: None, status: str):
    job = JobFactory.create(status=status)
    with guards.switched_off():  # the other half of the rule: its saga has counted it
        Saga.objects.filter(id=job.saga_id).update(attempt_count=job.attempt_no)
    with refused(match="A job is settled once, when it is finished"):
        Job.objects.filter(id=job.id).update(settled_at=clock.now())


def test_a_settled_job_is_not_settled_again():
    end_of_everything()
    with refused(match="A job is settled once"):
        Job.objects.filter(status="Completed").update(settled_at=None)
    with refused(match="A job is settled once"):
        Job.objects.filter(status="Completed").update(settled_at="2001-01-01 00:00:00Z")


@pytest.mark.parametrize("status", ["Pending", "InProgress", "PendingRetry"])
@pytest.mark.parametrize(
    "column",
    ["id", "event_id", "subscription_id", "generation", "max_retry_limit", "base_delay", "retry_delays", "created_at"],
)
def test_a_saga_keeps_its_event_subscription_and_generation(status, column):
    saga = SagaFactory.create(status=status)
    field = next(field for field in Saga._meta.concrete_fields if field.column == column)
    with refused(match="A saga keeps its event"):
        execute(f"UPDATE webhook_delivery_sagas SET {column} = %s WHERE id = %s", change(field), saga.id)


@pytest.mark.requirement("R1-7.1b")
@pytest.mark.requirement("R2-3.4b")
@pytest.mark.parametrize("status", ["Pending", "Leased"])
@pytest.mark.parametrize("column", ["id", "saga_id", "attempt_no", "attempt_at"])
def test_a_job_keeps_its_saga_and_attempt(status, column):
    job = JobFactory.create(status=status)
    field = next(field for field in Job._meta.concrete_fields if field.column == column)
    with refused(match="A job keeps its saga"):
        execute(f"UPDATE webhook_delivery_jobs SET {column} = %s WHERE id = %s", change(field), job.id)


@pytest.mark.requirement("R1-9d")
@pytest.mark.parametrize("make", [SagaFactory, JobFactory])
def test_a_row_in_progress_cannot_be_deleted(make: Callable[[], models.Model]):
    row = make()
    with refused(match="DELETE refused"):
        execute(f"DELETE FROM {row._meta.db_table} WHERE id = %s", row.pk)


@pytest.mark.requirement("R3-1.3a")
@pytest.mark.parametrize("table", ["events", "webhook_delivery_sagas", "webhook_delivery_jobs", "dead_letters"])
def test_replacing_a_row_is_deleting_it(table: str):
    """An INSERT that puts itself in the place of a stored row would otherwise pass for an insert on one engine."""
    world.subscribe("ok", "dead")
    world.publish_some("a")
    world.run_to_end()
    columns = [column.name for column in connection.introspection.get_table_description(connection.cursor(), table)]
    kept = ", ".join(column for column in columns if column not in GENERATED)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {kept} FROM {table} ORDER BY id")
        before = cursor.fetchall()

    with refused(DatabaseError, "refused"):
        execute(f"REPLACE INTO {table} ({kept}) SELECT {kept} FROM {table}")

    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {kept} FROM {table} ORDER BY id")
        assert cursor.fetchall() == before
