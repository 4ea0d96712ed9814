"""What writes beside the pipeline may die at any statement too: verification, rotation, new keys, the registry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings

from events import catalogue, declarations
from events.catalogue import Declaration
from events.endpoint_events import announce
from events.intake import publish
from events.models import Event, EventType
from subscriptions import credential_services, customers, endpoint_services, health
from subscriptions.credentials import OAuth2Client
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Customer, EndpointHealth, Subscription, endpoint_id
from subscriptions.reencryption import reencrypt
from subscriptions.secrets import OverlapRunning, rotate
from subscriptions.services import AlreadySubscribed, change, create
from subscriptions.verification import verify
from tests.conftest import empty_tables
from tests.factories import SubscriptionFactory
from tests.webhookhub.integrity.support import audit
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner.registry import Registration, heartbeat, remove_expired
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult
from webhookhub.stats.models import HOUR, Period, WorkflowPeriod
from webhookhub.stats.rollup import roll_up

from .crashes import interrupted

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
Work = Callable[[], object]


def to_verify(endpoint: HttpsEndpoint) -> Callable[[], Work]:
    numbers = iter(range(10_000))

    def prepare() -> Work:
        new = SubscriptionFactory.create(callback_url=endpoint.url(f"/{next(numbers)}"), verified=False)
        return lambda: verify(Subscription.objects.get(id=new.id))

    return prepare


def to_rotate() -> Work:
    subscription = SubscriptionFactory.create()

    def work() -> None:
        with suppress(OverlapRunning):  # a repeated call reports that it is done
            rotate(Subscription.objects.get(id=subscription.id))

    return work


def to_save() -> Work:
    subscription = SubscriptionFactory.create(description="old")
    subscription.description = "new"
    return lambda: subscription.save(update_fields=["description"])


def to_create() -> Work:
    address = f"https://127.0.0.1:8443/{Subscription.objects.count()}"

    def work() -> None:
        with suppress(AlreadySubscribed):  # which names the one that is there
            create({"event_type": "order.created", "callback_url": address, "headers": {"X-Key": "value"}})

    return work


def to_change() -> Work:
    subscription = SubscriptionFactory.create(description="old")
    return lambda: change(subscription, {"description": "new", "headers": {"X-Key": "value"}})


def to_declare() -> Work:
    EventType.objects.all().delete()
    return lambda: catalogue.declare("order.created", Declaration(description="new"))


def to_declare_differently() -> Work:
    EventType.objects.all().delete()
    catalogue.declare("order.created", Declaration(description="old"))
    return lambda: catalogue.declare("order.created", Declaration(description="new"))


def to_delete_declaration() -> Work:
    catalogue.declare("order.created", Declaration(description="old"))
    return lambda: catalogue.delete("order.created")


def to_beat() -> Work:
    registration = Registration("router")
    return lambda: heartbeat([registration])


def to_remove() -> Work:
    registration = Registration("router")
    heartbeat([registration])
    return registration.remove


def to_forget() -> Work:
    heartbeat([Registration("router")])
    Process.objects.update(heartbeat_at=clock.now() - 2 * hub().process_expiry)
    return remove_expired


def to_reencrypt() -> Work:
    SubscriptionFactory.create_batch(2, custom_headers=crypto.encrypt("X-Key: value"))
    return reencrypt


def to_roll_up() -> Work:
    """A minute that becomes part of an hour, and hours that are old enough to be deleted."""
    Period.objects.all().delete()
    WorkflowPeriod.objects.all().delete()
    minute = clock.now() - hub().stats_by_minute - timedelta(hours=1)
    attempts.add([AttemptResult(1, attempts.COMPLETED, None, minute, minute, 5)])
    hour = (clock.now() - hub().stats_by_hour - timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    Period.objects.create(period=HOUR, starts_at=hour, subscription_id=1, shard=0, attempts=3)
    WorkflowPeriod.objects.create(starts_at=hour, workflow="order", shard=0, started=1)
    return lambda: roll_up(100)


def to_fail_and_recover() -> Work:
    """A failing endpoint whose breaker opens later, and which succeeds in the end; stored twice."""
    EndpointHealth.objects.all().delete()
    pk = endpoint_id(SubscriptionFactory.create())

    def work() -> None:
        for _ in range(2):
            since = clock.now()
            health.note_failing(pk, since, "timeout")
            health.note_breaker(pk, since)
            health.note_stage(pk, health.load()[pk], 50)
            health.note_announced(EndpointHealth.objects.get().pk, health.load()[pk])
            health.note_success(pk)
            health.note_announced(EndpointHealth.objects.get().pk, health.load()[pk])

    return work


def to_disable(*, gone: bool) -> Callable[[], Work]:
    def prepare() -> Work:
        EndpointHealth.objects.all().delete()
        pk = endpoint_id(SubscriptionFactory.create())
        health.note_failing(pk, clock.now() - hub().disable_after, "timeout")
        return lambda: health.disable_gone(pk) if gone else health.disable_failing(pk, health.load()[pk], "timeout")

    return prepare


def to_enable() -> Work:
    subscription = SubscriptionFactory.create()
    health.disable_gone(endpoint_id(subscription))
    return lambda: health.enable(subscription, reason="fixed")


def to_announce() -> Work:
    EndpointHealth.objects.all().delete()
    pk = endpoint_id(SubscriptionFactory.create())
    health.disable_gone(pk)
    return lambda: announce(100)


def to_set_credentials() -> Work:
    subscription = SubscriptionFactory.create()
    client = OAuth2Client("https://login.example.com/token", "hub", "s3cret")
    return lambda: credential_services.set_oauth2(subscription, client)


def to_put_a_customer() -> Work:
    """A new one, which gets another name, is disabled and enabled."""
    key = f"customer-{Customer.objects.count()}"

    def work() -> None:
        customer = customers.put(key, "old").customer
        customers.put(key, "new")
        customers.disable(customer, reason="unpaid")
        customers.enable(customer, reason="paid")

    return work


def to_create_customers() -> Work:
    """By an event that names one."""
    key = f"customer-{Customer.objects.count()}"

    def work() -> None:
        declarations.clear()  # they are read again now and then
        settings.WEBHOOKHUB, before = replace(hub(), create_customers=True), settings.WEBHOOKHUB
        hub.cache_clear()
        try:
            publish("order.created", {}, source="shop", external_id=key, customer=key)
        finally:
            settings.WEBHOOKHUB = before
            hub.cache_clear()

    return work


def new_endpoint() -> Endpoint:
    url = f"https://127.0.0.1:8443/{Endpoint.objects.count()}"
    return endpoint_services.create({"callback_url": url, "event_types": ["order.*", "invoice.*"]})


def to_create_endpoint() -> Work:
    url = f"https://127.0.0.1:8443/{Endpoint.objects.count()}"

    def work() -> None:
        with suppress(AlreadySubscribed):
            endpoint_services.create({"callback_url": url, "event_types": ["order.*", "invoice.*"]})

    return work


def to_change_endpoint() -> Work:
    """It failed at its old URL."""
    pk = new_endpoint().pk
    health.note_failing(pk, clock.now() - timedelta(days=1), "timeout")
    values = {"callback_url": f"https://127.0.0.1:8443/{pk}/new", "event_types": ["order.*", "*"], "rate_limit": 3}
    return lambda: endpoint_services.change(Endpoint.objects.get(pk=pk), values)


def to_vouch() -> Work:
    pk = new_endpoint().pk
    return lambda: endpoint_services.vouch(Endpoint.objects.get(pk=pk), reason="a chat service")


def to_delete_endpoint() -> Work:
    pk = new_endpoint().pk
    return lambda: endpoint_services.delete(Endpoint.objects.get(pk=pk))


def to_leave_an_endpoint() -> Work:
    """A change of one of its subscriptions."""
    subscription = Subscription.objects.filter(endpoint=new_endpoint().pk).earliest("id")
    return lambda: change(subscription, {"description": "new"})


ELSEWHERE = [
    *(to_create_endpoint, to_change_endpoint, to_vouch, to_delete_endpoint, to_leave_an_endpoint),
    *(to_announce, to_declare, to_declare_differently, to_delete_declaration),
    *(to_put_a_customer, to_create_customers, to_set_credentials),
    *(to_fail_and_recover, to_disable(gone=True), to_disable(gone=False), to_enable),
    *(to_roll_up, to_rotate, to_save, to_create, to_change, to_beat, to_remove, to_forget, to_reencrypt),
]


def test_an_interrupted_verification_is_complete_or_not_recorded_and_can_be_repeated(endpoint):
    for point, work in interrupted(to_verify(endpoint)):
        row = Subscription.objects.latest("id")
        assert row.verified == bool(row.verification_at) == bool(row.verification_result), point
        work()
        assert Subscription.objects.latest("id").verified, point


def types_of(endpoint: Endpoint) -> list[str]:
    return endpoint_services.event_types(endpoint)


@pytest.mark.parametrize(
    ("prepare", "before", "after"),
    [
        (to_change_endpoint, (None, ["invoice.*", "order.*"]), (3, ["*", "order.*"])),
        (to_delete_endpoint, (None, ["invoice.*", "order.*"]), (None, [])),
        (to_vouch, (None, ["invoice.*", "order.*"]), (None, ["invoice.*", "order.*"])),
    ],
)
def test_an_endpoint_is_changed_with_its_subscriptions_or_not_at_all(
    prepare: Callable[[], Work], before: tuple[object, list[str]], after: tuple[object, list[str]]
):
    for point, work in interrupted(prepare):
        endpoint = Endpoint.objects.latest("id")
        assert (endpoint.rate_limit, types_of(endpoint)) in (before, after), point
        assert audit("endpoint-settings") == {}, point
        work()
        endpoint.refresh_from_db()
        assert (endpoint.rate_limit, types_of(endpoint)) == after, point
        assert (endpoint.verified, endpoint.deleted_at is None) == (
            prepare is to_vouch,
            prepare is not to_delete_endpoint,
        ), point
        assert audit("endpoint-settings") == {}, point


def test_an_endpoint_is_created_once_with_all_its_subscriptions_wherever_that_is_interrupted():
    def alone() -> Work:
        empty_tables()
        return to_create_endpoint()

    for point, work in interrupted(alone):
        assert (Endpoint.objects.count(), Subscription.objects.count()) in ((0, 0), (1, 2)), point
        work()
        assert (Endpoint.objects.count(), Subscription.objects.count()) == (1, 2), point
        assert audit("endpoint-settings") == {}, point


def test_a_subscription_leaves_its_endpoint_completely_or_not_wherever_that_is_interrupted():
    for point, work in interrupted(to_leave_an_endpoint):
        work()
        assert audit("endpoint-settings") == {}, point
        descriptions = list(Endpoint.objects.order_by("-id").values_list("description", flat=True)[:2])
        assert descriptions == ["new", ""], point


def test_an_interrupted_customer_has_its_audit_entries_and_can_be_repeated():
    for point, work in interrupted(to_put_a_customer):
        work()
        customer = Customer.objects.latest("id")
        assert (customer.name, customer.disabled_at) == ("new", None), point
        entries = Entry.objects.filter(object_type="customer", object_id=customer.pk)
        assert entries.filter(action="customer.create").count() == 1, point


def test_an_interrupted_event_of_a_new_customer_can_be_repeated():
    for point, work in interrupted(to_create_customers):
        customers._known.clear()
        work()
        event = Event.objects.latest("id")
        assert Customer.objects.filter(customer_key=event.customer_key).count() == 1, point
        assert Event.objects.filter(external_id=event.external_id).count() == 1, point


def test_the_known_secret_signs_wherever_a_rotation_is_interrupted():
    known = dict[int, str]()

    def prepare() -> Work:
        work = to_rotate()
        row = Subscription.objects.latest("id")
        known[row.id] = row.secret
        return work

    for point, work in interrupted(prepare):
        for _ in range(2):
            row = Subscription.objects.latest("id")
            assert known[row.id] in (row.secret, row.previous_secret), point
            work()
        row = Subscription.objects.latest("id")
        assert row.previous_secret == known[row.id], point


def test_a_subscription_is_created_once_wherever_its_creation_is_interrupted():
    def alone() -> Work:
        empty_tables()
        return to_create()

    for point, work in interrupted(alone):
        assert Subscription.objects.count() in (0, 1), point
        work()
        row = Subscription.objects.get()
        assert crypto.decrypt(row.custom_headers) == "X-Key: value", point
        assert crypto.decrypt(row.secret), point


@pytest.mark.requirement("R4-3.1a")
@pytest.mark.parametrize("prepare", [to_save, to_change])
def test_an_interrupted_change_is_complete_or_not_made_and_can_be_repeated(prepare: Callable[[], Work]):
    for point, work in interrupted(prepare):
        assert Subscription.objects.latest("id").description in ("old", "new"), point
        work()
        assert Subscription.objects.latest("id").description == "new", point


def test_credentials_are_stored_and_recorded_or_not_wherever_that_is_interrupted():
    for point, work in interrupted(to_set_credentials):
        subscription = Subscription.objects.latest("id")
        entries = Entry.objects.filter(object_id=subscription.pk, action=actions.SET_OAUTH2)
        assert entries.exists() == (subscription.credentials is not None), point
        work()
        assert Subscription.objects.latest("id").credentials, point


@pytest.mark.parametrize("prepare", [to_declare, to_declare_differently])
def test_an_event_type_is_declared_completely_or_not_wherever_that_is_interrupted(prepare: Callable[[], Work]):
    for point, work in interrupted(prepare):
        assert [row.description for row in EventType.objects.all()] in ([], ["old"], ["new"]), point
        work()
        assert [row.description for row in EventType.objects.all()] == ["new"], point


def test_a_declaration_is_deleted_or_not_wherever_that_is_interrupted():
    for point, work in interrupted(to_delete_declaration):
        work()
        assert not EventType.objects.exists(), point


def test_an_interrupted_reencryption_is_finished_by_the_next_run(hub_settings):
    old = hub().encryption_keys

    def prepare() -> Work:
        hub_settings(encryption_keys=(*old, new))
        work = to_reencrypt()
        hub_settings(encryption_keys=(new, *old))
        return work

    new = crypto.new_key()
    for _, work in interrupted(prepare):
        work()
        hub_settings(encryption_keys=(new,))
        for row in Subscription.objects.all():
            assert crypto.decrypt(row.secret)
            assert crypto.decrypt(row.custom_headers) == "X-Key: value"


@pytest.mark.parametrize(("prepare", "left"), [(to_beat, 1), (to_remove, 0), (to_forget, 0)])
def test_a_process_is_registered_once_or_not_at_all_wherever_its_heartbeat_is_interrupted(
    prepare: Callable[[], Work], left: int
):
    def alone() -> Work:
        Process.objects.all().delete()
        return prepare()

    for point, work in interrupted(alone):
        assert Process.objects.count() in (0, 1), point
        work()
        assert Process.objects.count() == left, point


@pytest.mark.parametrize("prepare", [to_disable(gone=True), to_disable(gone=False)])
def test_an_endpoint_is_disabled_with_its_subscriptions_wherever_that_is_interrupted(prepare: Callable[[], Work]):
    for point, work in interrupted(prepare):
        work()
        row = EndpointHealth.objects.get()
        assert row.disabled_at is not None, point
        assert Subscription.objects.latest("id").disabled_at == row.disabled_at, point


def test_a_disabled_endpoint_is_announced_once_wherever_that_is_interrupted():
    for point, work in interrupted(to_announce):
        work()
        work()
        row = EndpointHealth.objects.get()
        assert row.announced == row.stage == 100, point
        assert Event.objects.filter(external_id__contains=f"/{row.pk}/").count() == 1, point


def test_a_trouble_is_stored_completely_wherever_that_is_interrupted():
    for point, work in interrupted(to_fail_and_recover):
        work()
        row = EndpointHealth.objects.get()
        assert (row.recovered_by, row.stage, row.announced) == ("success", 0, 0), point
        assert row.breaker_open_since is None, point


def test_an_endpoint_is_enabled_once_and_recorded_wherever_that_is_interrupted():
    for point, work in interrupted(to_enable):
        subscription = Subscription.objects.latest("id")
        recorded = Entry.objects.filter(action="subscription.enable", object_id=subscription.id)
        assert recorded.count() == (subscription.disabled_at is None), point
        work()
        assert recorded.count() == 1, point
        assert Subscription.objects.latest("id").disabled_at is None, point


def test_every_result_stays_counted_once_wherever_the_rollup_is_interrupted():
    for point, work in interrupted(to_roll_up):
        kept = Period.objects.exclude(attempts=3)
        assert [period.attempts for period in kept] == [1], point
        work()
        assert Period.objects.values_list("period", "attempts").get() == (HOUR, 1), point
        assert not WorkflowPeriod.objects.exists(), point
