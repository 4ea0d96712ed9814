"""What is done to users, groups and their permissions is told, whichever way it is done."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from trail import actions
from trail.models import Entry

pytestmark = pytest.mark.django_db


def told() -> list[tuple[str, str, dict[str, Any]]]:
    rows = Entry.objects.order_by("id").values_list("action", "object_name", "details")
    return [(action, name, json.loads(details)) for action, name, details in rows]


def test_a_user_is_made_changed_and_deleted():
    user = User.objects.create_user("bert", password="a-long-passphrase")
    user.is_staff = True
    user.save()
    user.set_password("another-passphrase")
    user.save()
    user.save()
    user.delete()

    assert [(action, name) for action, name, _ in told()] == [
        (actions.CREATE_USER, "bert"),
        (actions.CHANGE_USER, "bert"),
        (actions.CHANGE_PASSWORD, "bert"),
        (actions.DELETE_USER, "bert"),
    ]
    assert told()[1][2] == {"is_staff": {"from": False, "to": True}}
    assert "pbkdf2" not in json.dumps(told())


def test_logging_in_is_no_change():
    client = Client()
    client.force_login(User.objects.create_user("bert", is_staff=True))

    assert [action for action, _, _ in told()] == [actions.CREATE_USER]


def test_groups_and_permissions_are_told_by_name_from_either_side():
    user, group = User.objects.create_user("bert"), Group.objects.create(name="night shift")
    permission = Permission.objects.get(codename="view_event")
    before = Entry.objects.count()

    user.groups.add(group)
    user.groups.add(group)
    group.user_set.remove(user)
    user.user_permissions.add(permission)
    group.permissions.set([permission])
    user.user_permissions.clear()
    group.delete()

    assert told()[before:] == [
        (actions.CHANGE_RIGHTS, "bert", {"of": "group", "added": ["night shift"]}),
        (actions.CHANGE_RIGHTS, "night shift", {"of": "user", "removed": ["bert"]}),
        (actions.CHANGE_RIGHTS, "bert", {"of": "permission", "added": [str(permission)]}),
        (actions.CHANGE_GROUP_RIGHTS, "night shift", {"of": "permission", "added": [str(permission)]}),
        (actions.CHANGE_RIGHTS, "bert", {"of": "permission", "cleared": "all"}),
        (actions.DELETE_GROUP, "night shift", {}),
    ]


def test_in_the_console_it_is_told_with_the_name_of_whoever_did_it():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    passwords = {"password1": "a-long-passphrase", "password2": "a-long-passphrase", "usable_password": "true"}

    client.post(reverse("admin:auth_user_add"), {"username": "bert", **passwords})
    bert = User.objects.get(username="bert")
    client.post(reverse("admin:auth_user_password_change", args=[bert.pk]), passwords)

    own = Entry.objects.filter(object_name="bert").order_by("id")
    assert [(entry.actor, entry.via, entry.action) for entry in own] == [
        ("root", "console", actions.CREATE_USER),
        ("root", "console", actions.CHANGE_PASSWORD),
    ]


def test_migrate_is_nobodys_action():
    before = Entry.objects.count()

    call_command("migrate", verbosity=0, stdout=StringIO())

    assert Entry.objects.count() == before
