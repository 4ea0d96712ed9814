"""The log-in page: throttling, logs, the audit log, sessions."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher, make_password
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from webhookhub.accounts import log_in, passwords, sessions, throttle
from webhookhub.accounts.models import Allowance
from webhookhub.accounts.passwords import Busy
from webhookhub.auditlog.models import Entry

LOG_IN = "/admin/login/"
PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _new_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with the whole allowance of its process."""
    monkeypatch.setattr(log_in, "slots", passwords._Slots())
    monkeypatch.setattr(log_in, "_omitted", 0)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD, is_staff=True)


def post(client: Client, name: str, password: str = PASSWORD, address: str = "203.0.113.1", **extra: Any) -> Any:
    return client.post(LOG_IN, {"username": name, "password": password, **extra}, REMOTE_ADDR=address)


def wrong(count: int, name: str = "ada", address: str = "203.0.113.1") -> list[int]:
    return [post(Client(), name, "wrong", address).status_code for _ in range(count)]


def failures() -> list[dict[str, Any]]:
    return [json.loads(entry.details) for entry in Entry.objects.filter(action="user.log_in_failed").order_by("pk")]


@pytest.mark.every_engine
def test_right_password_logs_in(ada: User, log_stream: io.StringIO) -> None:
    client = Client()
    response = post(client, "ada", next="/admin/sagas/saga/")
    assert (response.status_code, response["Location"]) == (302, "/admin/sagas/saga/")
    assert client.get("/admin/").status_code == 200
    [line] = [json.loads(line) for line in log_stream.getvalue().splitlines() if "logged_in" in line]
    assert (line["user"], line["address"], line["method"]) == ("ada", "203.0.113.1", "password")
    [entry] = Entry.objects.filter(action="user.log_in")
    assert (entry.actor, entry.object_id) == ("ada", ada.pk)


@pytest.mark.every_engine
def test_wrong_passwords_are_refused_after_a_few(ada: User) -> None:
    assert wrong(8) == [200] * 5 + [429] * 3
    response = post(Client(), "ada")
    assert response.status_code == 429
    assert 1 <= int(response["Retry-After"]) <= 60
    assert "Too many attempts" in response.content.decode()


def test_200_wrong_passwords_cost_little(ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine this takes minutes, in which the allowance would return.
    monkeypatch.setattr(throttle, "NAME_AND_ADDRESS", throttle.Limit("pair", 5, 3600))
    settings.PASSWORD_HASHERS = ["webhookhub.accounts.passwords.Argon2Hasher"]
    started = time.process_time()
    statuses = wrong(200)
    # Pages are rendered, but only five passwords are hashed; each took 0.23 s when none was refused.
    assert statuses.count(200) == 5
    assert statuses.count(429) == 195
    assert time.process_time() - started < 20


def test_attacker_does_not_lock_out_from_one_address(ada: User) -> None:
    wrong(40)
    assert post(Client(), "ada", address="198.51.100.7").status_code == 302


def test_known_browser_is_not_locked_out(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Client()
    assert post(own, "ada").status_code == 302
    device = own.cookies["hub_device"].value
    monkeypatch.setattr(throttle, "NAME", throttle.Limit("name", 5, 3600))
    for number in range(8):
        wrong(1, address=f"198.51.100.{number}")
    assert post(Client(), "ada", address="192.0.2.9").status_code == 429
    browser = Client()
    browser.cookies["hub_device"] = device
    assert post(browser, "ada", address="198.51.100.1").status_code == 302


def test_cookie_of_another_user_or_forged_counts_for_nothing(ada: User) -> None:
    bob = User.objects.create_user("bob", password=PASSWORD, is_staff=True)
    client = Client()
    post(client, "bob")
    cookie = client.cookies["hub_device"].value
    assert bob.pk != ada.pk
    statuses = []
    for value in [cookie] * 4 + [cookie[:-2] + "xx", "x", ""] * 2:
        browser = Client()
        browser.cookies["hub_device"] = value
        statuses.append(post(browser, "ada", "wrong").status_code)
    assert statuses == [200] * 5 + [429] * 5


def test_known_browser_has_a_limit_of_its_own(ada: User) -> None:
    own = Client()
    post(own, "ada")
    device = own.cookies["hub_device"].value
    statuses = []
    for _ in range(12):
        browser = Client()
        browser.cookies["hub_device"] = device
        statuses.append(post(browser, "ada", "wrong").status_code)
    assert statuses == [200] * 10 + [429] * 2


def test_names_are_tried_from_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "PER_SECOND", 1000.0)
    monkeypatch.setattr(throttle, "ADDRESS", throttle.Limit("address", 30, 3600))
    statuses = [post(Client(), f"user{number}", "wrong").status_code for number in range(40)]
    assert statuses == [200] * 30 + [429] * 10


def test_ipv6_clients_are_counted_by_network(ada: User) -> None:
    statuses = [wrong(1, address=f"2001:db8::{number}")[0] for number in range(1, 8)]
    assert statuses == [200] * 5 + [429] * 2


@pytest.mark.every_engine
def test_spellings_of_a_name_share_its_limit(ada: User) -> None:
    """Some collations find a user by other spellings; each must not be an allowance of its own."""
    spellings = ["ada", "ADA", "Ada", "aDa", "adA", "ADa", "AdA"]
    statuses = [post(Client(), name, "wrong").status_code for name in spellings]
    # One more where the spellings are different names.
    assert statuses.count(200) in (5, 6)


def test_unknown_names_get_the_same_response(ada: User) -> None:
    def text(name: str) -> str:
        page = post(Client(), name, "wrong").content.decode()
        body = page[page.index("<body") :]
        return "".join(part for part in body.replace(name, "NAME").splitlines() if "csrfmiddlewaretoken" not in part)

    assert text("ada") == text("eve")
    assert wrong(6, "ada", "192.0.2.1") == wrong(6, "eve", "192.0.2.2")


def test_user_who_may_not_use_the_console(ada: User) -> None:
    User.objects.create_user("customer", password=PASSWORD)
    assert post(Client(), "customer").status_code == 200
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert post(Client(), "ada").status_code == 200


def test_every_failure_is_logged_with_name_and_address(ada: User, log_stream: io.StringIO) -> None:
    wrong(6)
    lines = [json.loads(line) for line in log_stream.getvalue().splitlines() if "log_in_failed" in line]
    assert [(line["name"], line["address"]) for line in lines] == [("ada", "203.0.113.1")] * 6
    assert [line["cause"] for line in lines] == ["wrong_password"] * 5 + ["too_many_attempts"]
    assert PASSWORD not in log_stream.getvalue()
    assert failures()[0] == {"address": "203.0.113.1", "cause": "wrong_password"}
    assert set(Entry.objects.filter(action="user.log_in_failed").values_list("object_id", flat=True)) == {ada.pk}


def test_audit_log_cannot_be_filled(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "AUDIT", throttle.Limit("audit", 3, 3600))
    wrong(10)
    assert len(failures()) == 3
    Allowance.objects.filter(bucket__startswith="audit").update(spent_until=0)
    wrong(1)
    assert failures()[-1]["omitted"] == 7


def test_table_of_allowances_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "BUCKETS", 4)
    for number in range(100):
        throttle.take(throttle.ADDRESS, f"10.0.0.{number}")
    assert Allowance.objects.count() == 4


@pytest.mark.every_engine
def test_allowance_returns_with_time() -> None:
    limit = throttle.Limit("x", 2, 60)
    now = 1_800_000_000 * throttle.SECOND
    assert [throttle.take(limit, "k", now) for _ in range(3)] == [0, 0, 60]
    assert throttle.take(limit, "k", now + 59 * throttle.SECOND) == 1
    assert throttle.take(limit, "k", now + 60 * throttle.SECOND) == 0
    assert throttle.take(limit, "k", now + 60 * throttle.SECOND) == 60
    assert throttle.take(limit, "other", now) == 0


@pytest.mark.every_engine
def test_parallel_attempts_do_not_exceed_the_limit(committed: None) -> None:
    limit, taken = throttle.Limit("x", 3, 3600), []

    def attempt() -> None:
        from django.db import connection

        try:
            taken.append(not throttle.take(limit, "k"))
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 5 + [True] * 3


def test_password_is_hashed_with_argon2id(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["webhookhub.accounts.passwords.Argon2Hasher"]
    assert make_password("x").startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")


def test_hashing_takes_the_memory_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread that hashes keeps 19 MB: the web server's 32 threads would keep 600 MB."""
    hasher, names = passwords.Argon2Hasher(), set()
    encoded = hasher.encode("x", "0123456789")

    def verify(self: Any, password: str, stored: str) -> bool:
        names.add(threading.current_thread().name)
        return True

    monkeypatch.setattr(Argon2PasswordHasher, "verify", verify)
    threads = [threading.Thread(target=hasher.verify, args=["y", encoded]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {"passwords_0"}


def test_old_hashes_are_upgraded_at_the_next_log_in(settings: Any, ada: User) -> None:
    settings.PASSWORD_HASHERS = [
        "webhookhub.accounts.passwords.Argon2Hasher",
        "django.contrib.auth.hashers.MD5PasswordHasher",
    ]
    assert ada.password.startswith("md5$")
    assert post(Client(), "ada").status_code == 302
    ada.refresh_from_db()
    assert ada.password.startswith("argon2$argon2id$")
    assert not Entry.objects.filter(action="user.password").exists()


def test_few_passwords_are_checked_at_once() -> None:
    slots, entered, leave = passwords._Slots(), threading.Event(), threading.Event()

    def hold() -> None:
        with slots.slot(is_known_browser=True):
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(10)
    results: list[str] = []

    def wait_for_slot() -> None:
        try:
            with slots.slot(is_known_browser=True):
                results.append("checked")
        except Busy:
            results.append("refused")

    waiting = [threading.Thread(target=wait_for_slot) for _ in range(20)]
    for thread in waiting:
        thread.start()
    deadline = time.monotonic() + 10
    while len(results) < 16 and time.monotonic() < deadline:
        leave.wait(0.01)
    assert results == ["refused"] * 16
    leave.set()
    for thread in [holder, *waiting]:
        thread.join()
    assert sorted(results) == ["checked"] * 4 + ["refused"] * 16


def test_rate_of_checked_passwords_is_bounded(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Client()
    post(own, "ada")
    device = own.cookies["hub_device"].value
    slots = passwords._Slots()
    slots._left = 0.0
    monkeypatch.setattr(log_in, "slots", slots)
    monkeypatch.setattr(passwords, "PER_SECOND", 0.0)
    response = post(Client(), "eve", "wrong")
    assert (response.status_code, failures()[-1]["cause"]) == (429, "busy")
    browser = Client()
    browser.cookies["hub_device"] = device
    assert post(browser, "ada").status_code == 302


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time that sessions are measured by."""
    passed = [0.0]
    real = time.time

    class Time:
        @staticmethod
        def time() -> float:
            return real() + passed[0]

    monkeypatch.setattr(sessions, "time", Time)

    def move(seconds: float) -> None:
        passed[0] += seconds

    return move


def is_logged_in(client: Client, page: str = "/admin/") -> bool:
    return bool(client.get(page).status_code == 200)


def test_session_ends_without_requests(ada: User, clock: Callable[[float], None], log_stream: io.StringIO) -> None:
    client = Client()
    post(client, "ada")
    for _ in range(5):
        clock(3000)
        assert is_logged_in(client)
    clock(3601)
    assert not is_logged_in(client)
    assert "session_ended" in log_stream.getvalue()


def test_session_ends_after_a_working_day(ada: User, clock: Callable[[float], None]) -> None:
    client = Client()
    post(client, "ada")
    for _ in range(14):
        clock(3000)
        assert is_logged_in(client)
    clock(1300)
    assert not is_logged_in(client)


def test_overview_that_reloads_itself_does_not_keep_a_session(ada: User, clock: Callable[[float], None]) -> None:
    client = Client()
    post(client, "ada")
    for _ in range(2):
        clock(1700)
        assert is_logged_in(client, reverse("admin:overview"))
    clock(300)
    assert not is_logged_in(client)


def test_limits_of_sessions_are_settings(ada: User, hub_settings: Any, clock: Callable[[float], None]) -> None:
    hub_settings(session_idle=timedelta(seconds=100))
    client = Client()
    post(client, "ada")
    clock(101)
    assert not is_logged_in(client)


def test_log_in_changes_the_session_id(ada: User) -> None:
    client = Client()
    session = client.session
    session["x"] = 1
    session.save()
    before = str(session.session_key)
    client.cookies["sessionid"] = before
    post(client, "ada")
    assert client.cookies["sessionid"].value != before


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_log_in_redirects_to_the_console_only(ada: User, target: str) -> None:
    assert post(Client(), "ada", next=target)["Location"] == "/admin/"


def test_log_in_needs_a_csrf_token(ada: User) -> None:
    assert post(Client(enforce_csrf_checks=True), "ada").status_code == 403
