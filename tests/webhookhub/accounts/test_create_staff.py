"""`manage.py create_staff`."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from webhookhub.accounts.management.commands import create_staff
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def create(*arguments: str, **options: Any) -> str:
    output = io.StringIO()
    call_command("create_staff", *arguments, stdout=output, stderr=io.StringIO(), **options)
    return output.getvalue()


def test_the_password_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(create_staff.VARIABLE, PASSWORD)

    output = create("anna", "--group", "support", "--group", "auditors")

    assert output == "anna may use the console, in auditors, support.\n"
    user = User.objects.get()
    assert (user.is_staff, user.is_superuser, user.is_active) == (True, False, True)
    assert set(user.groups.values_list("name", flat=True)) == {"support", "auditors"}
    assert Client().login(username="anna", password=PASSWORD)
    recorded = list(Entry.objects.order_by("id").values_list("action", "object_name", "via"))
    assert recorded[:2] == [(actions.CREATE_USER, "anna", "command"), (actions.CHANGE_RIGHTS, "anna", "command")]


def test_the_password_is_prompted_for_twice(monkeypatch: pytest.MonkeyPatch):
    answers = iter([PASSWORD, "another", PASSWORD, PASSWORD])
    monkeypatch.delenv(create_staff.VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))

    with pytest.raises(CommandError, match="the two passwords differ"):
        create("anna", "--group", "support")
    create("anna", "--group", "support")

    assert Client().login(username="anna", password=PASSWORD)


def test_without_a_terminal_the_error_names_alternatives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(create_staff.VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    with pytest.raises(CommandError, match="set WEBHOOKHUB_STAFF_PASSWORD, or use --link"):
        create("anna", "--group", "support")

    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["anna", "--group", "unknown"], "there is no group 'unknown'; there are auditors, operations, support"),
        (["anna smith", "--group", "support"], "username: Enter a valid username"),
        (["taken", "--group", "support"], "username: A user with that username already exists"),
        (["anna", "--group", "support", "--email", "x"], "email: Enter a valid email"),
        (["anna", "--group", "support", "--link", "hub"], "write it as https://hub.example.com"),
    ],
)
def test_invalid_arguments_create_no_user(arguments: list[str], error: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(create_staff.VARIABLE, PASSWORD)
    User.objects.create_user("taken")

    with pytest.raises(CommandError, match=re.escape(error)):
        create(*arguments)

    assert User.objects.count() == 1


@pytest.mark.parametrize("weak", ["short", "anna-anna"])
def test_a_weak_password_is_refused(weak: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(create_staff.VARIABLE, weak)

    with pytest.raises(CommandError, match=r"No user was created: (This|The) password"):
        create("anna-anna", "--group", "support")

    assert not User.objects.exists()


def test_no_option_takes_a_password():
    parser = create_staff.Command().create_parser("manage.py", "create_staff")

    assert "--password" not in parser.format_help()


def test_a_link_sets_the_password_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(create_staff.VARIABLE, raising=False)
    output = create("anna", "--group", "support", "--link", "https://hub.example.com/")
    link = re.search(r"https://hub[.]example[.]com(/\S+)", output)
    assert link
    assert not User.objects.get().has_usable_password()
    client = Client()

    page = client.get(link[1], follow=True)
    wrong = {"new_password1": PASSWORD, "new_password2": "another"}
    assert "Choose your password" in page.content.decode()
    assert "match" in client.post(page.redirect_chain[-1][0], wrong).content.decode()
    right = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post(page.redirect_chain[-1][0], right).status_code == 302

    assert Client().login(username="anna", password=PASSWORD)
    again = Client().get(link[1], follow=True).content.decode()
    assert "used already or has expired" in again
    entry = Entry.objects.get(action=actions.CHANGE_PASSWORD)
    assert (entry.actor, entry.via) == ("anna (link)", "console")
