"""Every page of the console: no error in the browser's console, no request to another host, no serious accessibility
violation, in the light and the dark theme, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import Group, User
from django.urls import reverse

from api import keys
from tests.browser.visitor import Visitor
from tests.support import rows
from tests.workflows import shop
from webhookhub.auditlog.models import Entry

SUBSCRIPTION_PAGES = ("subscriptions_subscription_pause", "subscriptions_subscription_resume", "subscription_backfill")


def addresses() -> list[str]:
    """One page of each kind, with rows."""
    pks = rows.one_of_each("http_503")
    pks["api_apikey"] = keys.create("till", ["read"], by="tests")[0].pk
    pks["auth_user"] = User.objects.order_by("pk")[0].pk
    pks["auth_group"] = Group.objects.get_or_create(name="support")[0].pk
    pks["auditlog_entry"] = Entry.objects.order_by("pk")[0].pk
    editable = ["subscriptions_subscription", "api_apikey", "auth_user", "auth_group"]
    return [
        reverse("admin:index"),
        *(rows.listing(name) for name in pks),
        *(rows.change(name, pk) for name, pk in pks.items()),
        *(rows.add(name) for name in editable),
        rows.listing("sagas_saga", "?q=nothing"),
        reverse("admin:search") + "?q=http_503",
        reverse("admin:search") + "?q=nothing",
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
        reverse("admin:search") + "?q=o-1",
        rows.listing("workflows_instance"),
        rows.listing("workflows_instance", "?saga_type=order_submission&age=over-week"),
        rows.change("workflows_instance", saga.pk),
        rows.change("workflows_instance", broken.pk),
        reverse("admin:workflows_instance_stats"),
        reverse("admin:workflows_instance_stats") + "?span=month&workflow=order_submission",
        reverse("admin:workflows_instance_definitions"),
        reverse("admin:workflows_instance_definition", args=["order_submission"]),
        reverse("admin:workflows_instance_definition", args=["order_cancellation"]),
        *(reverse("admin:workflows_instance_act", args=[broken.pk, name]) for name in ("retry", "mark", "close")),
    ]


def test_every_page_is_accessible(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root)
    errors = []
    for address in addresses():
        visit.open(address)
        errors += visit.accessibility_errors()

    assert not errors, "\n".join(errors)


def test_every_page_is_accessible_in_the_dark_and_on_a_phone(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root, dark=True, width=390)
    errors = []
    for address in addresses():
        visit.open(address)
        errors += visit.accessibility_errors()
        if visit.overflow() > 0:
            errors.append(f"{address} is {visit.overflow()} pixels wider than a phone")

    assert not errors, "\n".join(errors)
