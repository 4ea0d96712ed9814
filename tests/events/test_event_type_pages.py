"""The catalogue in the console, and its public page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from events import catalogue
from events.catalogue import Declaration
from events.intake import publish
from events.models import EventType
from tests.support import rows
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db

NAME = "events_eventtype"
FORM = {
    "name": "order.created",
    "group": "Orders",
    "description": "An order <b>was</b> placed.",
    "sample": '{"id": 1}',
    "json_schema": '{"type": "object", "required": ["id"]}',
    "label_pointers": "region: /order/region\nsku: /lines/0/sku",
    "strict": "on",
    "deprecation_note": "",
    "reason": "documented",
}


@pytest.fixture
def operator(member: Callable[[str], Client]) -> Client:
    return member("operations")


def errors(response: Any) -> dict[str, list[str]]:
    return dict(response.context["adminform"].form.errors)


def test_an_event_type_is_declared_changed_and_deleted(operator: Client):
    assert operator.post(rows.add(NAME), FORM).status_code == 302
    row = EventType.objects.get()
    declared = Declaration.of(row)
    assert declared.label_pointers == {"region": "/order/region", "sku": "/lines/0/sku"}
    assert declared.strict
    assert declared.sample == {"id": 1}
    assert Entry.objects.get(object_type="eventtype").reason == "documented"

    page = rows.change(NAME, row.pk)
    shown = operator.get(page)
    assert "region: /order/region" in shown.content.decode()
    seen = shown.context["adminform"].form.initial["seen"]
    changed = {**FORM, "label_pointers": "", "deprecated": "on", "deprecation_note": "Old.", "seen": seen}
    assert operator.post(page, changed).status_code == 302
    assert Declaration.of(EventType.objects.get()).deprecated
    # The same form again was made for the earlier declaration.
    assert "__all__" in errors(operator.post(page, {**changed, "group": "Other"}))

    assert operator.post(rows.delete(NAME, row.pk), {"post": "yes"}).status_code == 302
    assert not EventType.objects.exists()
    assert list(Entry.objects.filter(object_type="eventtype").order_by("id").values_list("action", flat=True)) == [
        "eventtype.declare",
        "eventtype.change",
        "eventtype.delete",
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"json_schema": "{"}, "json_schema"),
        ({"json_schema": '{"type": "x"}'}, "json_schema"),
        ({"json_schema": ""}, "strict"),
        ({"sample": "{}"}, "sample"),
        ({"label_pointers": "region"}, "label_pointers"),
        ({"label_pointers": "region: order"}, "label_pointers"),
    ],
)
def test_an_error_is_shown_at_its_field(operator: Client, changes: dict[str, str], field: str):
    assert field in errors(operator.post(rows.add(NAME), {**FORM, **changes}))
    assert not EventType.objects.exists()


def test_a_name_that_is_declared_already_is_refused(operator: Client):
    catalogue.declare("order.created", Declaration(description="First."))
    assert "name" in errors(operator.post(rows.add(NAME), FORM))
    assert EventType.objects.get().description == "First."


def test_permissions(member: Callable[[str], Client], staff: Callable[..., Client]):
    catalogue.declare("order.created", Declaration(json_schema={"type": "object"}))
    pk = EventType.objects.get().pk
    support, stranger = member("support"), staff("stranger")
    assert "order.created" in support.get(rows.listing(NAME)).content.decode()
    assert "object" in support.get(rows.change(NAME, pk)).content.decode()
    assert support.post(rows.change(NAME, pk), FORM).status_code == 403
    assert support.post(rows.add(NAME), FORM).status_code == 403
    assert support.post(rows.delete(NAME, pk), {"post": "yes"}).status_code == 403
    for page in (rows.listing(NAME), rows.change(NAME, pk), reverse("admin:events_eventtype_undeclared")):
        assert stranger.get(page).status_code == 403


def test_undeclared_types_are_listed(operator: Client, member: Callable[[str], Client]):
    publish("order.creatd", {})
    page = operator.get(reverse("admin:events_eventtype_undeclared")).content.decode()
    assert "order.creatd" in page
    assert f"{rows.add(NAME)}?name=order.creatd" in page
    assert "?name=" not in member("support").get(reverse("admin:events_eventtype_undeclared")).content.decode()


def test_the_public_page_is_off_unless_it_is_switched_on(client: Client, hub_settings: Callable[..., None]):
    catalogue.declare("order.created", Declaration(description="<b>x</b>", group="Orders", sample={"id": 7}))
    for page in ("/event-types/", "/event-types/openapi.json"):
        assert client.get(page).status_code == 404
    hub_settings(public_event_types=True)
    page = client.get("/event-types/").content.decode()
    assert "order.created" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    document = client.get("/event-types/openapi.json").json()
    assert list(document["webhooks"]) == ["order.created"]
    assert client.post("/event-types/").status_code == 405
