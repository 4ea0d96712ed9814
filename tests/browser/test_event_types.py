"""The catalogue of event types and the preview of a filter, in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from events import catalogue
from events.catalogue import Declaration
from events.intake import publish
from events.models import EventType
from tests.support import rows

from .visitor import Visitor

DECLARED = Declaration(
    description="An order was placed.\n\nSent once per order.",
    group="Orders",
    sample={"order": {"id": 1, "region": "eu"}},
    json_schema={"type": "object", "required": ["order"]},
    label_pointers={"region": "/order/region"},
    strict=True,
)


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["desktop", "dark phone"])
def test_the_pages_are_accessible(visitor: Callable[..., Visitor], root: User, dark: bool, width: int):
    catalogue.declare("order.created", DECLARED)
    catalogue.declare("order.placed", Declaration(deprecated=True, deprecation_note="Use order.created."))
    publish("order.creatd", {}, labels={"region": "eu"})
    visit = visitor(root, dark=dark, width=width)
    for address in (
        rows.listing("events_eventtype"),
        rows.add("events_eventtype"),
        rows.change("events_eventtype", EventType.objects.get(name="order.created").pk),
        reverse("admin:events_eventtype_undeclared"),
        reverse("admin:subscription_preview"),
    ):
        visit.open(address)
        assert visit.accessibility_errors() == [], address
        assert visit.overflow() <= 0, address


def test_a_type_is_declared_from_the_list_of_undeclared_ones(visitor: Callable[..., Visitor], root: User):
    publish("order.created", {"order": {"id": 1}})
    page = visitor(root).open(reverse("admin:events_eventtype_undeclared"))
    page.click("text=Declare >> nth=-1")
    assert page.input_value("[name=name]") == "order.created"
    page.fill("[name=json_schema]", '{"type": "strin"}')
    page.click("button[name=_save]")
    page.wait_for_selector("text=At /type")
    page.fill("[name=json_schema]", '{"type": "object"}')
    page.click("button[name=_save]")
    page.wait_for_url(f"**{rows.listing('events_eventtype')}")
    assert EventType.objects.get().name == "order.created"


def test_a_filter_is_previewed_before_it_is_saved(visitor: Callable[..., Visitor], root: User):
    for region in ("eu", "eu", "us"):
        publish("order.created", {}, labels={"region": region})
    page = visitor(root).open(rows.add("subscriptions_subscription"))
    page.fill("[name=event_type]", "order.created")
    page.fill("[name=label_filter]", json.dumps([{"label": "region", "equals": "eu"}]))
    with page.context.expect_page() as opened:
        page.click("text=Preview the filter on the newest events")
    opened.value.wait_for_selector("#accepted")
    assert "accepts 2 of the newest 3 events" in opened.value.inner_text("#accepted")


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["desktop", "dark phone"])
def test_the_public_page_is_accessible(
    visitor: Callable[..., Visitor], hub_settings: Callable[..., None], dark: bool, width: int
):
    catalogue.declare("order.created", DECLARED)
    catalogue.declare("order.placed", Declaration(group="Orders", deprecated=True, deprecation_note="Old."))
    hub_settings(public_event_types=True)
    visit = visitor(None, dark=dark, width=width)
    page = visit.open(reverse("event_types"))
    page.click("summary")
    assert "required" in page.inner_text("details pre")
    assert visit.accessibility_errors() == []
    assert visit.overflow() <= 0
