"""The console's groups and their permissions."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from subscriptions.models import Subscription
from tests.support import rows

pytestmark = pytest.mark.django_db

VIEW = {
    *("view_event", "view_saga", "view_deliveryrequest", "view_job", "view_deadletter", "view_subscription"),
    *("view_process", "view_instance", "view_customer", "view_endpoint", "view_eventtype"),
}
EXPECTED = {
    "support": VIEW | {"send_now", "send_again", "requeue_deadletter", "retry_step"},
    "auditors": VIEW | {"view_entry"},
    "operations": VIEW
    | {
        "view_entry",
        "send_now",
        "send_again",
        "abandon",
        "bulk_request",
        "requeue_deadletter",
        "retry_step",
        "mark_compensated",
        "close_workflow",
        "bulk_requeue_deadletter",
        "add_customer",
        "disable_customer",
        "add_eventtype",
        "change_eventtype",
        "delete_eventtype",
        "add_subscription",
        "change_subscription",
        "verify_subscription",
        "vouch_endpoint",
        "reveal_secret",
        "change_credentials",
    },
}
NAME = "deadletters_deadletter"


def permissions(group: str) -> set[str]:
    return set(Group.objects.get(name=group).permissions.values_list("codename", flat=True))


def migrate() -> None:
    call_command("migrate", verbosity=0, stdout=StringIO())


@pytest.mark.parametrize("group", EXPECTED)
def test_migrate_creates_the_groups(group: str):
    assert permissions(group) == EXPECTED[group]


def test_migrate_restores_missing_groups_and_permissions():
    Group.objects.get(name="auditors").delete()
    support = Group.objects.get(name="support")
    support.permissions.remove(Permission.objects.get(codename="requeue_deadletter"))

    migrate()
    migrate()

    assert {group: permissions(group) for group in EXPECTED} == EXPECTED
    assert Group.objects.count() == len(EXPECTED)


def test_migrate_removes_no_permissions():
    Group.objects.get(name="support").permissions.add(Permission.objects.get(codename="change_subscription"))

    migrate()

    assert permissions("support") == EXPECTED["support"] | {"change_subscription"}


def select(client: Client, *letters: DeadLetter):
    selected = [letter.pk for letter in letters]
    return client.post(
        rows.listing(NAME), {"action": "requeue", "_selected_action": selected, "index": "0"}, follow=True
    )


def confirm(client: Client, *letters: DeadLetter):
    page = reverse("admin:deadletters_deadletter_requeue")
    return client.post(page, {"ids": ",".join(str(letter.pk) for letter in letters), "reason": "fixed"}, follow=True)


def test_support_may_requeue_one_at_a_time(member: Callable[[str], Client]):
    one, two = rows.dead_letter("one"), rows.dead_letter("two")
    support = member("support")

    assert "You may requeue only one dead letter at a time." in select(support, one, two).content.decode()
    assert confirm(support, one, two).status_code == 403
    page = reverse("admin:deadletters_deadletter_requeue")
    assert support.get(page, {"ids": f"{one.pk},{two.pk}"}).status_code == 403
    assert not Requeue.objects.exists()

    assert "This dead letter" in select(support, one).content.decode()
    assert support.get(page, {"ids": one.pk}).status_code == 200
    assert confirm(support, one).status_code == 200
    assert confirm(support, two, two).status_code == 200, "the same dead letter twice"
    assert Requeue.objects.count() == 2


def test_operations_may_requeue_many_at_once(member: Callable[[str], Client]):
    letters = [rows.dead_letter(text) for text in ("one", "two")]
    operations = member("operations")

    assert "These 2 dead letters" in select(operations, *letters).content.decode()
    assert confirm(operations, *letters).status_code == 200
    assert Requeue.objects.count() == 2


def test_auditors_can_only_view(member: Callable[[str], Client]):
    pks = rows.one_of_each()
    auditor = member("auditors")

    for name, pk in pks.items():
        assert auditor.get(rows.listing(name)).status_code == 200
        assert auditor.get(rows.change(name, pk)).status_code == 200
        assert auditor.get(rows.add(name)).status_code == 403
    assert confirm(auditor, DeadLetter.objects.get()).status_code == 403
    for verb in ("verify", "test", "rotate"):
        page = reverse("admin:subscriptions_subscription_change", args=[pks["subscriptions_subscription"]])
        assert auditor.post(page.replace("/change/", f"/{verb}/")).status_code == 403
    assert not Requeue.objects.exists()


@pytest.mark.parametrize(("group", "may"), [("support", False), ("auditors", False), ("operations", True)])
def test_only_operations_may_change_subscriptions(member: Callable[[str], Client], group: str, may: bool):
    pk = rows.one_of_each()["subscriptions_subscription"]
    client = member(group)
    page = rows.change("subscriptions_subscription", pk)

    assert (client.get(rows.add("subscriptions_subscription")).status_code == 200) is may
    assert (client.post(page.replace("/change/", "/rotate/"), {"reason": "it leaked"}).status_code == 200) is may
    assert (Subscription.objects.get(pk=pk).previous_secret != "") is may


def test_the_bulk_permission_alone_is_not_enough():
    letters = [rows.dead_letter(text) for text in ("one", "two")]
    user = User.objects.create_user("anna")
    user.user_permissions.set(Permission.objects.filter(codename="bulk_requeue_deadletter"))

    for selection in (letters, letters[:1]):
        with pytest.raises(PermissionDenied, match=r"lacks the permission deadletters[.]requeue_deadletter"):
            requeue([letter.pk for letter in selection], by=User.objects.get(pk=user.pk), reason="r")
    assert not Requeue.objects.exists()
