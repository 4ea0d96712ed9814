"""API keys in the console: created, shown once, revoked, never changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from api import keys
from api.models import ApiKey
from tests.support import rows
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db

NAME = "api_apikey"
FORM = {"name": "shop", "source": "shop", "scopes": ["events:write", "read"], "events_per_second": "5"}


def revoke(pk: Any) -> str:
    return reverse("admin:api_apikey_revoke", args=[pk])


@pytest.fixture
def key() -> ApiKey:
    return keys.create("till", ["read"], by="tests")[0]


def test_a_new_key_is_shown_once(superuser: Client):
    page = superuser.post(rows.add(NAME), FORM)

    text = re.search(r'<code id="secret">(.+?)</code>', page.content.decode())
    assert text is not None
    caller = keys.find(text.group(1))
    assert caller is not None
    assert (caller.key.name, caller.key.source, caller.key.scopes) == ("shop", "shop", "events:write read")
    assert (caller.key.created_by, caller.key.events_per_second) == ("root", 5)
    secret = text.group(1).split("_", 2)[2]
    for address in (rows.listing(NAME), rows.change(NAME, caller.key.pk)):
        shown = superuser.get(address)
        assert shown.status_code == 200
        assert secret not in shown.content.decode()
        assert caller.key.secret_sha256 not in shown.content.decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "This field is required"),
        ({"source": "Hub"}, "Source must not be &#x27;Hub&#x27;, which is reserved for the hub; choose another."),
        ({"scopes": []}, "Choose at least one scope"),
        ({"scopes": ["all"]}, "Select a valid choice"),
        ({"scopes": ["subscriptions:write"]}, "Scopes must not include subscriptions:write, which is only for a key"),
        ({"expires_at": "2001-01-01 00:00"}, "must be in the future"),
    ],
)
def test_the_form_refuses_an_invalid_key(superuser: Client, change: dict[str, Any], message: str):
    page = superuser.post(rows.add(NAME), FORM | change)

    assert page.status_code == 200
    assert message in page.content.decode()
    assert not ApiKey.objects.exists()


def test_the_form_refuses_a_duplicate_name(superuser: Client, key: ApiKey):
    page = superuser.post(rows.add(NAME), FORM | {"name": "till"})

    assert "already exists" in page.content.decode()
    assert ApiKey.objects.count() == 1


def test_a_key_is_revoked_once_and_the_user_is_recorded(superuser: Client, key: ApiKey):
    assert b"Revoke</button>" in superuser.get(rows.change(NAME, key.pk)).content

    superuser.post(revoke(key.pk))
    again = superuser.post(revoke(key.pk), follow=True)

    key.refresh_from_db()
    assert key.revoked_at is not None
    assert b"was revoked before" in again.content
    assert b"Revoke</button>" not in again.content
    assert [entry.actor for entry in Entry.objects.filter(action=actions.REVOKE_KEY)] == ["root"]


def test_a_key_cannot_be_changed_or_deleted(superuser: Client, key: ApiKey):
    before = ApiKey.objects.values().get()

    assert superuser.post(rows.change(NAME, key.pk), {"scopes": "read events:write"}).status_code == 403
    assert superuser.post(rows.delete(NAME, key.pk), {"post": "yes"}).status_code == 403
    superuser.post(rows.listing(NAME), {"action": "delete_selected", "_selected_action": key.pk, "post": "yes"})
    assert superuser.get(revoke(key.pk)).status_code == 405
    assert ApiKey.objects.values().get() == before


def test_creating_viewing_and_revoking_need_separate_permissions(staff: Callable[..., Client], key: ApiKey):
    maker = staff("maker", "add_apikey")
    viewer = staff("viewer", "view_apikey")
    revoker = staff("revoker", "view_apikey", "revoke_apikey")

    assert [client.get(rows.add(NAME)).status_code for client in (maker, viewer, revoker)] == [200, 403, 403]
    assert [client.get(rows.change(NAME, key.pk)).status_code for client in (maker, viewer, revoker)] == [403, 200, 200]
    assert [client.post(revoke(key.pk)).status_code for client in (maker, viewer, revoker)] == [403, 403, 302]
