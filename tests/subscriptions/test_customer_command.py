"""`manage.py customer`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from events.models import Event
from sagas.models import Saga
from subscriptions.models import Customer
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory

pytestmark = pytest.mark.django_db


def run(*arguments: Any) -> str:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue().strip()


def test_put_list_disable_and_enable():
    assert run("customer", "put", "acme", "--name", "Acme Ltd") == "Customer acme is new."
    assert run("customer", "put", "acme") == "Customer acme exists."
    assert json.loads(run("customer", "put", "globex", "--json"))["key"] == "globex"
    assert run("customer", "list") == "acme  Acme Ltd\nglobex"
    assert run("customer", "list", "--after", "acme") == "globex"
    assert run("customer", "disable", "acme", "--reason", "unpaid") == "Customer acme is disabled."
    assert run("customer", "disable", "acme", "--reason", "unpaid") == "Customer acme was disabled before."
    assert run("customer", "list").startswith("acme  disabled")
    assert [row["key"] for row in json.loads(run("customer", "list", "--json"))["customers"]] == ["acme", "globex"]
    assert run("customer", "enable", "acme", "--reason", "paid") == "Customer acme is enabled."
    assert run("customer", "enable", "acme", "--reason", "paid") == "Customer acme was not disabled."


def test_dead_letters_and_deliveries_of_a_customer():
    for key in ("acme", "globex"):
        run("customer", "put", key)
        subscription = SubscriptionFactory.create(customer_key=key)
        SagaFactory.create(
            event=EventFactory.create(customer_key=key), subscription=subscription, status="DeadLettered"
        )
        SagaFactory.create(event=EventFactory.create(customer_key=key), subscription=subscription)
    assert run("requeue_dead_letters", "--customer", "acme", "--reason", "r").startswith("1 dead letters requeued")
    assert set(Saga.objects.filter(generation=1).values_list("customer_key", flat=True)) == {"acme"}
    preview = json.loads(run("request_deliveries", "abandon", "--customer", "globex", "--dry-run", "--json"))
    assert preview["waiting"] == 1
    for command in (["requeue_dead_letters"], ["request_deliveries", "abandon"]):
        with pytest.raises(CommandError, match="--customer"):
            run(*command, "--customer", "", "--dry-run")


def test_errors_name_the_field():
    with pytest.raises(CommandError, match="key must have 1 to 100"):
        run("customer", "put", "a b")
    with pytest.raises(CommandError, match="There is no customer 'acme'"):
        run("customer", "disable", "acme", "--reason", "r")
    run("customer", "put", "acme")
    with pytest.raises(CommandError, match="reason must be"):
        run("customer", "disable", "acme", "--reason", " ")


def test_an_event_and_a_key_of_a_customer():
    run("customer", "put", "acme")
    run("publish_event", "order.created", "{}", "--customer", "acme")
    assert Event.objects.get().customer_key == "acme"
    with pytest.raises(CommandError, match="customer 'nobody' does not exist"):
        run("publish_event", "order.created", "{}", "--customer", "nobody")
    created = json.loads(run("api_key", "create", "portal", "--scope", "read", "--customer", "acme", "--json"))
    assert created["customer"] == "acme"
    assert "customer acme" in run("api_key", "list")
    for customer, why in (("", "customer is empty"), ("nobody", "customer must be the key of a customer")):
        with pytest.raises(CommandError, match=why):
            run("api_key", "create", "other", "--scope", "read", "--customer", customer)
    assert Customer.objects.count() == 1
