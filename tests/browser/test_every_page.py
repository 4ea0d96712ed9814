"""Every page of the console: no error in the browser's console, nothing from another host, no grave accessibility
fault, by day and by night, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.urls import reverse

from api import keys
from tests.admin import rows
from tests.workflows import shop
from trail.models import Entry
from webhookhub.db import vendors

from .visitor import Visitor

ONCE = pytest.mark.skipif(vendors.is_server(connection), reason="runs once, with the embedded database")


SUBSCRIPTION_PAGES = ("subscriptions_subscription_pause", "subscriptions_subscription_resume", "subscription_backfill")


def addresses() -> list[str]:
    """One of each kind of page, with something on it."""
    pks = rows.one_of_each("http_503")
    pks["api_apikey"] = keys.create("till", ["read"], by="tests")[0].pk
    pks["auth_user"] = User.objects.order_by("pk")[0].pk
    pks["auth_group"] = Group.objects.get_or_create(name="support")[0].pk
    pks["trail_entry"] = Entry.objects.order_by("pk")[0].pk
    made_by_people = ["subscriptions_subscription", "api_apikey", "auth_user", "auth_group"]
    return [
        reverse("admin:index"),
        *(rows.listing(name) for name in pks),
        *(rows.change(name, pk) for name, pk in pks.items()),
        *(rows.add(name) for name in made_by_people),
        rows.listing("sagas_saga", "?q=nothing"),
        reverse("admin:find") + "?q=http_503",
        reverse("admin:find") + "?q=nothing",
        reverse("admin:deadletters_deadletter_requeue") + f"?ids={pks['deadletters_deadletter']}",
        reverse("admin:deadletters_deadletter_requeue_matching"),
        rows.listing("deadletters_deadletter", "?error_code=x&since=never"),
        *(reverse(f"admin:{name}", args=[pks["subscriptions_subscription"]]) for name in SUBSCRIPTION_PAGES),
        reverse("admin:auth_user_password_change", args=[pks["auth_user"]]),
        reverse("admin:password_change"),
        *workflows(),
    ]


def workflows() -> list[str]:
    saga = shop.waiting_for_payment("o-1")
    shop.delivery("o-1", "inventory.reserved", "PendingRetry", "http_503")
    broken = shop.failed("o-2")
    shop.completed("o-3")
    return [
        reverse("admin:find") + "?q=o-1",
        rows.listing("workflows_instance"),
        rows.listing("workflows_instance", "?saga_type=order_submission&age=over-week"),
        rows.change("workflows_instance", saga.pk),
        rows.change("workflows_instance", broken.pk),
        reverse("admin:workflows_instance_definitions"),
        reverse("admin:workflows_instance_definition", args=["order_submission"]),
        reverse("admin:workflows_instance_definition", args=["order_cancellation"]),
        *(reverse("admin:workflows_instance_act", args=[broken.pk, name]) for name in ("retry", "mark", "close")),
    ]


@ONCE
def test_every_page_is_sound(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root)
    faults = []
    for address in addresses():
        visit.open(address)
        faults += visit.accessibility_faults()

    assert not faults, "\n".join(faults)


@ONCE
def test_every_page_is_sound_in_the_dark_and_on_a_phone(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root, dark=True, width=390)
    faults = []
    for address in addresses():
        visit.open(address)
        faults += visit.accessibility_faults()
        if visit.overflow() > 0:
            faults.append(f"{address} is {visit.overflow()} pixels wider than a phone")

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["desk", "phone in the dark"])
def test_what_cannot_be_answered_is_said_soundly(visitor: Callable[..., Visitor], root: User, dark: bool, width: int):
    for who in (root, None):
        visit = visitor(who, dark=dark, width=width)
        visit.page.goto(visit.home + "/nothing/")
        # The browser notes the status by itself.
        assert [fault for fault in visit.faults if "404" not in fault] == []
        visit.faults.clear()
        assert "There is nothing here" in visit.page.inner_text("h1")
        assert visit.accessibility_faults() == []
        assert visit.overflow() <= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_login_is_sound(visitor: Callable[..., Visitor], root: User, dark: bool):
    visit = visitor(None, dark=dark)
    page = visit.open(reverse("admin:login"))
    assert visit.accessibility_faults() == []

    page.fill("[name=username]", "root")
    page.fill("[name=password]", "only for tests")
    page.click("#login-form button[type=submit]")

    page.wait_for_url(f"**{reverse('admin:index')}")


def test_the_form_of_an_api_key_shows_where_to_type(visitor: Callable[..., Visitor], root: User):
    page = visitor(root).open(rows.add("api_apikey"))

    for name in ("name", "source", "expires_at", "events_per_second"):
        field = page.locator(f"input[name={name}]")
        assert field.evaluate("(field) => parseFloat(getComputedStyle(field).borderTopWidth)") > 0, name


@pytest.mark.parametrize("key", ["Control+k", "Meta+k"])
def test_no_key_opens_a_search_that_is_not_there(visitor: Callable[..., Visitor], root: User, key: str):
    page = visitor(root).open(reverse("admin:index"))
    boxes = page.locator("input[type=search]:visible").count()

    page.keyboard.press(key)

    page.evaluate("() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    assert page.locator("input[type=search]:visible").count() == boxes
    assert page.locator("[hx-get*='/search/']").count() == 0


def test_no_page_may_run_a_script_that_is_written_into_it(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root)
    page = visit.open(reverse("admin:index"))

    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.intruder = true";
            document.body.append(script);
        }"""
    )

    assert page.evaluate("window.intruder") is None
    assert [fault for fault in visit.faults if "Content Security Policy" in fault]
    visit.faults.clear()
