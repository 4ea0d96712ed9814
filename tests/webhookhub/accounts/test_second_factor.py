"""Authenticator apps, recovery codes and required second factors. Security keys are tested in tests/browser."""

from __future__ import annotations

import json
import re
import threading
import time
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from webhookhub import crypto
from webhookhub.accounts import log_in, passwords, second_factor, sessions, throttle, webauthn
from webhookhub.accounts.models import RecoveryCode, SecondFactor
from webhookhub.auditlog.models import Entry

PASSWORD = "correct horse battery"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
VERIFY = "/admin/verify/"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _new_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_in, "slots", passwords._Slots())


@pytest.fixture
def ada() -> User:
    user = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    user.groups.add(Group.objects.get(name="support"))
    return user


def step() -> int:
    return int(time.time()) // 30


def add_app(user: User) -> list[str]:
    """An app whose last code was used long ago."""
    codes = second_factor.add_app(user, SECRET, step() - 10)
    assert len(codes) == 10
    return codes


def with_password(client: Client | None = None) -> Client:
    client = client or Client()
    response = client.post("/admin/login/", {"username": "ada", "password": PASSWORD, "next": "/admin/sagas/saga/"})
    assert (response.status_code, response["Location"]) == (302, VERIFY)
    return client


def verify(client: Client, code: str) -> Any:
    return client.post(VERIFY, {"code": code})


def causes() -> list[str]:
    entries = Entry.objects.filter(action="user.log_in_failed").order_by("pk")
    return [json.loads(entry.details)["cause"] for entry in entries]


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "94287082"), (1111111109, "07081804"), (1234567890, "89005924"), (20000000000, "65353130")],
)
def test_codes_are_those_of_the_standard(monkeypatch: pytest.MonkeyPatch, seconds: int, code: str) -> None:
    """The test vectors of RFC 6238, appendix B, which have eight digits."""
    monkeypatch.setattr(second_factor, "DIGITS", 8)
    assert second_factor.code_at("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", seconds // 30) == code


@pytest.mark.every_engine
def test_code_is_asked_for_after_the_password(ada: User) -> None:
    add_app(ada)
    client = with_password()
    assert client.get("/admin/").status_code == 302  # not logged in yet
    assert "Second factor" in client.get(VERIFY).content.decode()
    response = verify(client, second_factor.code_at(SECRET, step()))
    assert response["Location"] == "/admin/sagas/saga/"
    assert client.get("/admin/").status_code == 200
    assert json.loads(Entry.objects.get(action="user.log_in").details)["method"] == "totp"


@pytest.mark.every_engine
def test_code_works_once_and_none_before_it(ada: User) -> None:
    add_app(ada)
    now = step()
    assert verify(with_password(), second_factor.code_at(SECRET, now)).status_code == 302
    assert verify(with_password(), second_factor.code_at(SECRET, now)).status_code == 200
    assert verify(with_password(), second_factor.code_at(SECRET, now - 1)).status_code == 200
    assert causes() == ["wrong_code"] * 2


@pytest.mark.every_engine
def test_code_works_once_even_at_the_same_time(committed: None) -> None:
    user = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    codes = second_factor.add_app(user, SECRET, step() - 10)
    app, results = second_factor.code_at(SECRET, step()), []

    def use(code: str) -> None:
        try:
            results.append(second_factor.use_code(user, code))
        finally:
            connection.close()

    threads = [threading.Thread(target=use, args=[code]) for code in [app] * 4 + [codes[0]] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(filter(None, results)) == ["recovery_code", "totp"]


def test_wrong_and_old_codes_are_refused(ada: User) -> None:
    add_app(ada)
    client = with_password()
    for code in ("", "000000x", "abcdefghij", second_factor.code_at(SECRET, step() - 5)):
        assert verify(client, code).status_code == 200
    assert client.get("/admin/").status_code == 302


def test_guessing_codes_is_limited(ada: User) -> None:
    add_app(ada)
    client = with_password()
    right = second_factor.code_at(SECRET, step() + 5)
    statuses = [verify(client, right).status_code for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    assert causes() == ["wrong_code"] * 5 + ["too_many_attempts"] * 2
    # From other addresses, too.
    statuses = [
        client.post(VERIFY, {"code": right}, REMOTE_ADDR=f"198.51.100.{number}").status_code for number in range(20)
    ]
    assert statuses.count(200) == throttle.CODE.at_once - 5


@pytest.mark.every_engine
def test_recovery_code_works_once(ada: User) -> None:
    codes = add_app(ada)
    client = with_password()
    assert verify(client, codes[3].upper().replace("-", " ")).status_code == 302
    assert json.loads(Entry.objects.get(action="user.log_in").details)["method"] == "recovery_code"
    assert verify(with_password(), codes[3]).status_code == 200
    assert verify(with_password(), codes[4]).status_code == 302
    assert RecoveryCode.objects.filter(user=ada, used_at__isnull=True).count() == 8


def test_codes_and_secrets_are_not_stored_in_the_clear(ada: User) -> None:
    codes = add_app(ada)
    stored = " ".join(RecoveryCode.objects.values_list("code_sha256", flat=True))
    assert not any(code.replace("-", "") in stored for code in codes)
    factor = SecondFactor.objects.get()
    assert SECRET not in factor.data
    assert crypto.decrypt(factor.data) == SECRET


def test_code_of_another_user_is_refused(ada: User) -> None:
    add_app(ada)
    bob = User.objects.create_user("bob", password=PASSWORD, is_staff=True)
    codes = second_factor.add_app(bob, second_factor.new_secret(), 0)
    assert verify(with_password(), codes[0]).status_code == 200


def test_password_alone_opens_no_page(ada: User) -> None:
    add_app(ada)
    client = with_password()
    for page in ("second_factor", "second_factor_app", "second_factor_key", "password_change"):
        assert client.get(reverse(f"admin:{page}")).status_code == 302
    assert client.post(reverse("admin:second_factor_remove", args=[SecondFactor.objects.get().pk])).status_code == 302
    assert SecondFactor.objects.exists()


def test_pending_log_in_expires(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from webhookhub.accounts import second_factor_views

    codes = add_app(ada)
    client = with_password()
    monkeypatch.setattr(second_factor_views, "PENDING_SECONDS", -1)
    assert verify(client, codes[0])["Location"].startswith("/admin/login/")
    assert Client().get(VERIFY)["Location"].startswith("/admin/login/")


def test_user_who_may_not_log_in_any_more(ada: User) -> None:
    codes = add_app(ada)
    client = with_password()
    User.objects.update(is_active=False)
    assert verify(client, codes[0])["Location"].startswith("/admin/login/")
    assert client.get("/admin/").status_code == 302


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_app_is_added_with_a_code(ada: User) -> None:
    client = logged_in(ada)
    page = client.get(reverse("admin:second_factor_app")).content.decode()
    [secret] = re.findall(r'<code id="secret">(\w+)</code>', page)
    assert "data:image/svg+xml" in page
    wrong = client.post(reverse("admin:second_factor_app"), {"code": "000000"})
    assert "This code is not valid" in wrong.content.decode()
    done = client.post(reverse("admin:second_factor_app"), {"code": second_factor.code_at(secret, step())})
    codes = re.findall(r"^[a-z0-9]{5}-[a-z0-9]{5}$", done.content.decode().replace('<pre id="codes">', "\n"), re.M)
    assert len(codes) == 10
    assert Entry.objects.filter(action="user.second_factor_add", actor="ada", object_id=ada.pk).count() == 1
    # The code that was used to add the app cannot log in.
    assert verify(with_password(), second_factor.code_at(secret, step())).status_code == 200
    assert verify(with_password(), codes[0]).status_code == 302


@pytest.mark.every_engine
def test_a_user_has_one_app(ada: User) -> None:
    add_app(ada)
    assert second_factor.add_app(ada, second_factor.new_secret(), 0) == []
    assert SecondFactor.objects.count() == 1


def test_new_recovery_codes_replace_the_old(ada: User) -> None:
    codes = add_app(ada)
    client = logged_in(ada)
    assert client.get(reverse("admin:second_factor_codes")).status_code == 302
    page = client.post(reverse("admin:second_factor_codes")).content.decode()
    assert codes[0] not in page
    assert verify(with_password(), codes[0]).status_code == 200
    assert RecoveryCode.objects.count() == 10


def test_removing_the_last_factor_removes_the_codes(ada: User) -> None:
    add_app(ada)
    client = logged_in(ada)
    url = reverse("admin:second_factor_remove", args=[SecondFactor.objects.get().pk])
    client.get(url)
    assert SecondFactor.objects.exists()
    client.post(url)
    assert not SecondFactor.objects.exists()
    assert not RecoveryCode.objects.exists()
    assert Entry.objects.filter(action="user.second_factor_remove").count() == 1


def test_nobody_removes_the_factor_of_another(ada: User) -> None:
    add_app(ada)
    client = logged_in(User.objects.create_superuser("root"))
    assert client.post(reverse("admin:second_factor_remove", args=[SecondFactor.objects.get().pk])).status_code == 404
    assert SecondFactor.objects.exists()


@pytest.mark.parametrize("page", ["second_factor_app", "second_factor_key", "second_factor_codes"])
def test_old_session_cannot_change_the_factors(ada: User, page: str) -> None:
    client = logged_in(ada)
    session = client.session
    session[sessions.STARTED] = time.time() - sessions.FRESH_SECONDS - 1
    session.save()
    response = client.post(reverse(f"admin:{page}"), {"code": "1"})
    assert response["Location"].startswith("/admin/login/")
    assert client.get("/admin/").status_code == 302


def test_group_may_require_a_second_factor(ada: User, hub_settings: Any) -> None:
    hub_settings(second_factor_groups=("support",))
    client = Client()
    client.post("/admin/login/", {"username": "ada", "password": PASSWORD})
    for page in ("/admin/", "/admin/sagas/saga/", reverse("admin:password_change"), reverse("admin:search")):
        assert client.get(page)["Location"] == reverse("admin:second_factor")
    assert "Your group requires a second factor" in client.get(reverse("admin:second_factor")).content.decode()
    page = client.get(reverse("admin:second_factor_app")).content.decode()
    [secret] = re.findall(r'<code id="secret">(\w+)</code>', page)
    client.post(reverse("admin:second_factor_app"), {"code": second_factor.code_at(secret, step())})
    assert client.get("/admin/").status_code == 200
    client.post(reverse("admin:second_factor_remove", args=[SecondFactor.objects.get().pk]))
    assert client.get("/admin/").status_code == 302


def test_superusers_are_in_every_group_and_others_are_not(ada: User, hub_settings: Any) -> None:
    hub_settings(second_factor_groups=("operations",))
    assert logged_in(ada).get("/admin/").status_code == 200
    assert logged_in(User.objects.create_superuser("root")).get("/admin/").status_code == 302


def test_single_sign_on_needs_no_second_factor_here(ada: User, hub_settings: Any) -> None:
    hub_settings(second_factor_groups=("support",))
    client = logged_in(ada)
    session = client.session
    session[sessions.METHOD] = log_in.SSO
    session.save()
    assert client.get("/admin/").status_code == 200


def test_reset_by_command(ada: User) -> None:
    add_app(ada)
    out = StringIO()
    call_command("reset_second_factor", "ada", stdout=out)
    assert "1 removed" in out.getvalue()
    assert not SecondFactor.objects.exists()
    assert not RecoveryCode.objects.exists()
    entry = Entry.objects.get(action="user.second_factor_reset")
    assert (entry.via, entry.object_id) == ("command", ada.pk)
    assert Client().post("/admin/login/", {"username": "ada", "password": PASSWORD})["Location"] == "/admin/"
    with pytest.raises(CommandError, match="There is no user 'eve'"):
        call_command("reset_second_factor", "eve")


def test_secrets_of_apps_are_reencrypted(ada: User, hub_settings: Any) -> None:
    add_app(ada)
    before = SecondFactor.objects.get().data
    hub_settings(encryption_keys=(crypto.new_key(), *_keys()))
    call_command("reencrypt_secrets", stdout=StringIO())
    after = SecondFactor.objects.get().data
    assert after != before
    hub_settings(encryption_keys=_keys()[:1])
    assert crypto.decrypt(after) == SECRET
    hub_settings(encryption_keys=(crypto.new_key(),))
    with pytest.raises(CommandError, match="authenticator app"):
        call_command("reencrypt_secrets", stdout=StringIO())


def _keys() -> tuple[str, ...]:
    from webhookhub.conf import hub

    return hub().encryption_keys


def test_wrong_responses_of_keys_are_refused(ada: User, rf: Any) -> None:
    request = rf.get("/")
    request.session = {}
    webauthn.registration_options(request, ada)
    for response in ("", "{}", "[]", json.dumps({"id": "x", "rawId": "eA", "type": "public-key", "response": {}})):
        with pytest.raises(webauthn.InvalidKey):
            webauthn.add_key(request, ada, response, "key")
        assert not webauthn.use_key(request, ada, response)
    assert not SecondFactor.objects.exists()
