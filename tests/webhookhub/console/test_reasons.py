"""Reasons are validated in the same way by all forms and escaped in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from deadletters.models import Requeue
from events.intake import publish
from subscriptions.models import Subscription
from subscriptions.services import version
from tests.support import rows
from tests.workflows import shop
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.auditlog.record import record
from workflows.models import Fact

pytestmark = pytest.mark.django_db

Form = tuple[str, dict[str, Any]]


def _requeue() -> Form:
    return reverse("admin:deadletters_deadletter_requeue"), {"ids": rows.dead_letter().pk}


def _pause() -> Form:
    return reverse("admin:subscriptions_subscription_pause", args=[rows.dead_letter().subscription_id]), {}


def _replace() -> Form:
    return reverse("admin:subscriptions_subscription_rotate", args=[rows.dead_letter().subscription_id]), {}


def _backfill() -> Form:
    subscription = rows.dead_letter().subscription
    publish(subscription.event_type, {"n": 1})  # without an undelivered event nothing is recorded
    return reverse("admin:subscription_backfill", args=[subscription.pk]), {"since": "2026-01-01 00:00"}


def _edit() -> Form:
    subscription = Subscription.objects.get(pk=rows.dead_letter().subscription_id)
    values = {"event_type": "order.paid", "callback_url": subscription.callback_url, "active": "on", "description": "d"}
    return rows.change("subscriptions_subscription", subscription.pk), {**values, "seen": version(subscription)}


def _workflow() -> Form:
    saga = shop.declined("o-1")
    return reverse("admin:workflows_instance_act", args=[saga.pk, "close"]), {"token": "0" * 32}


FORMS: dict[str, Callable[[], Form]] = {
    "requeue": _requeue,
    "pause": _pause,
    "replace": _replace,
    "backfill": _backfill,
    "edit": _edit,
    "workflow": _workflow,
}


def form_in(response: Any) -> Any:
    context = response.context
    return context["adminform"].form if "adminform" in context else context["form"]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_validates_reasons_in_the_same_way(superuser: Client, name: str):
    address, values = FORMS[name]()
    entries = Entry.objects.count()
    hostile = {**values, "reason": "a\u202eb"}
    response = superuser.post(address, hostile)
    assert response.status_code == 200
    assert form_in(response).errors["reason"][0].startswith("Reason must not contain control characters")
    chinese = superuser.post(address, hostile, headers={"accept-language": "zh-TW"})
    translation.deactivate()  # the request left its language in the thread
    assert form_in(chinese).errors["reason"][0].startswith("原因")
    assert Entry.objects.count() == entries
    assert not Requeue.objects.exists()

    superuser.post(address, {**values, "reason": "端點已修復\u3000👩\u200d🔧"})

    reasons = set(Entry.objects.values_list("reason", flat=True)) | set(Fact.objects.values_list("reason", flat=True))
    assert "端點已修復\u3000👩\u200d🔧" in reasons


def test_the_audit_log_makes_invisible_characters_visible(superuser: Client):
    """Such a reason may have been stored by another program."""
    record(actions.TEST, kind="subscription", name="a\u202eb", by="c\u202ed", reason="e\u202ef \x1b[2J")
    entry = Entry.objects.get(action=actions.TEST)

    for address in (rows.listing("auditlog_entry"), rows.change("auditlog_entry", entry.pk)):
        page = superuser.get(address).content.decode()
        assert "\u202e" not in page
        assert "\x1b" not in page
        for shown in ("a\\u202eb", "c\\u202ed", "e\\u202ef \\u001b[2J"):
            assert shown in page
