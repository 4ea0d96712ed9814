"""Changes of users, groups and permissions are recorded."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db


def recorded() -> list[tuple[str, str, dict[str, Any]]]:
    rows = Entry.objects.order_by("id").values_list("action", "object_name", "details")
    return [(action, name, json.loads(details)) for action, name, details in rows]


def test_creating_changing_and_deleting_a_user():
    user = User.objects.create_user("bert", password="a-long-passphrase")
    user.is_staff = True
    user.save()
    user.set_password("another-passphrase")
    user.save()
    user.save()
    user.delete()

    assert [(action, name) for action, name, _ in recorded()] == [
        (actions.CREATE_USER, "bert"),
        (actions.CHANGE_USER, "bert"),
        (actions.CHANGE_PASSWORD, "bert"),
        (actions.DELETE_USER, "bert"),
    ]
    assert recorded()[1][2] == {"is_staff": {"from": False, "to": True}}
    assert "pbkdf2" not in json.dumps(recorded())


def test_a_login_is_not_recorded():
    client = Client()
    client.force_login(User.objects.create_user("bert", is_staff=True))

    assert [action for action, _, _ in recorded()] == [actions.CREATE_USER]


def test_groups_and_permissions_are_recorded_from_either_side():
    user, group = User.objects.create_user("bert"), Group.objects.create(name="night shift")
    permission = Permission.objects.get(codename="view_event")
    before = Entry.objects.count()

    user.groups.add(group)
    user.groups.add(group)
    group.user_set.remove(user)
    user.user_permissions.add(permission)
    group.permissions.set([permission])
    user.user_permissions.clear()
    user.user_permissions.clear()
    group.delete()

    assert recorded()[before:] == [
        (actions.CHANGE_RIGHTS, "bert", {"groups_added": ["night shift"]}),
        (actions.CHANGE_RIGHTS, "night shift", {"users_removed": ["bert"]}),
        (actions.CHANGE_RIGHTS, "bert", {"permissions_added": ["events.view_event"]}),
        (actions.CHANGE_GROUP_RIGHTS, "night shift", {"permissions_added": ["events.view_event"]}),
        (actions.CHANGE_RIGHTS, "bert", {"permissions_removed": ["events.view_event"]}),
        (actions.DELETE_GROUP, "night shift", {"permissions": ["events.view_event"]}),
    ]


def test_the_console_records_the_user_as_actor():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    passwords = {"password1": "a-long-passphrase", "password2": "a-long-passphrase", "usable_password": "true"}

    client.post(reverse("admin:auth_user_add"), {"username": "bert", **passwords})
    bert = User.objects.get(username="bert")
    client.post(reverse("admin:auth_user_password_change", args=[bert.pk]), passwords)

    own = Entry.objects.filter(object_name="bert").order_by("id")
    assert [(entry.actor, entry.via, entry.action, entry.object_id) for entry in own] == [
        ("root", "console", actions.CREATE_USER, bert.pk),
        ("root", "console", actions.CHANGE_PASSWORD, bert.pk),
    ]


def test_a_taken_user_name_writes_no_entry():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    User.objects.create_user("bert")
    before = Entry.objects.count()
    passwords = {"password1": "a-long-passphrase", "password2": "a-long-passphrase", "usable_password": "true"}

    client.post(reverse("admin:auth_user_add"), {"username": "bert", **passwords})

    assert Entry.objects.count() == before


def test_a_deletion_records_the_lost_memberships():
    user = User.objects.create_user("bert")
    user.groups.add(Group.objects.get(name="support"))
    group = Group.objects.create(name="night shift")
    group.user_set.add(User.objects.create_user("carla"))

    user.delete()
    group.delete()

    assert recorded()[-2:] == [
        (actions.DELETE_USER, "bert", {"groups": ["support"]}),
        (actions.DELETE_GROUP, "night shift", {"users": ["carla"]}),
    ]


def test_an_upgraded_password_hash_is_not_recorded(settings: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PBKDF2PasswordHasher, "iterations", 1)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher"]
    user = User.objects.create_user("bert", password="a-long-passphrase")
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher", *settings.PASSWORD_HASHERS]

    assert user.check_password("a-long-passphrase")

    assert User.objects.get().password.startswith("pbkdf2_sha256")
    assert not Entry.objects.filter(action=actions.CHANGE_PASSWORD).exists()


def test_create_staff_records_the_user_and_the_group(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEBHOOKHUB_STAFF_PASSWORD", "a-long-passphrase")

    call_command("create_staff", "dora", "--group", "support", stdout=StringIO())

    dora = User.objects.get(username="dora")
    assert list(Entry.objects.order_by("id").values_list("action", "object_id", "via")) == [
        (actions.CREATE_USER, dora.pk, "command"),
        (actions.CHANGE_RIGHTS, dora.pk, "command"),
    ]


def test_migrate_writes_no_entry():
    before = Entry.objects.count()

    call_command("migrate", verbosity=0, stdout=StringIO())

    assert Entry.objects.count() == before
