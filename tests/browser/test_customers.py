"""A customer is created, found, disabled and enabled in a browser, with a running hub."""

from __future__ import annotations

import os
from collections.abc import Callable

from playwright.sync_api import Page, expect

from events.intake import publish
from sagas.models import Saga
from subscriptions.models import Customer
from tests.factories import SubscriptionFactory
from tests.processes.support import until
from tests.support import rows

from .stack import Stack
from .visitor import Visitor

LogIn = Callable[[str], Visitor]


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_operations_create_disable_and_enable_a_customer(log_in: LogIn, stack: Stack):
    visit = log_in("operations")
    page = visit.open(rows.add("subscriptions_customer"))
    visit.check_accessibility()
    page.fill("input[name=customer_key]", "acme:1")
    page.fill("input[name=name]", "Acme <b>Ltd</b>")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Acme <b>Ltd</b>").first).to_be_visible()
    visit.check_accessibility()
    picture(page, "customers")
    customer = Customer.objects.get(customer_key="acme:1")
    SubscriptionFactory.create(event_type="acme.order", callback_url=stack.endpoint.url("/acme"), customer_key="acme:1")
    event = publish("acme.order", {"n": 1}, external_id="acme-order-1", customer="acme:1")
    until(lambda: Saga.objects.filter(event_id=event.id, status="Completed").exists(), "it is delivered")

    page = visit.open(rows.change("subscriptions_customer", customer.pk))
    expect(page.locator("#subscriptions")).to_contain_text("acme.order")
    expect(page.locator("#subscriptions")).to_contain_text("active")
    visit.check_accessibility()
    picture(page, "customer")
    page.get_by_role("link", name="Disable", exact=True).click()
    visit.check_accessibility()
    page.fill("[name=reason]", "unpaid")
    page.get_by_role("button", name="Disable", exact=True).click()
    expect(page.get_by_text("The customer is disabled")).to_be_visible()
    expect(page.locator("#subscriptions")).to_contain_text("customer disabled")
    visit.check_accessibility()
    picture(page, "customer-disabled")
    page.get_by_role("link", name="Enable", exact=True).click()
    page.fill("[name=reason]", "paid")
    page.get_by_role("button", name="Enable", exact=True).click()
    expect(page.locator("#subscriptions")).not_to_contain_text("customer disabled")

    page.locator("#content, main, body").first.get_by_role("link", name="Deliveries", exact=True).last.click()
    expect(page.get_by_text("acme:1").first).to_be_visible()
    picture(page, "deliveries-of-customer")
    page = visit.open("/admin/search/?q=acme:1")
    expect(page.get_by_role("link", name="acme:1")).to_be_visible()
    picture(page, "search-customer")
    saga = Saga.objects.get(event_id=event.id)
    page = visit.open(rows.change("sagas_saga", saga.pk))
    expect(page.get_by_text("acme-order-1").first).to_be_visible()
    picture(page, "delivery-of-customer")
