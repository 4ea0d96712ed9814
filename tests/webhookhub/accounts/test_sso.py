"""Single sign-on with a real provider on loopback."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import oidc_provider_mock
import pytest
import requests
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from webhookhub.accounts import oidc, sso, throttle
from webhookhub.accounts.models import Identity
from webhookhub.auditlog.models import Entry

PUBLIC = "http://testserver"
GROUPS = (("hub-support", "support"), ("hub-ops", "operations"), ("hub-audit", "auditors"), ("root", "superusers"))

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread() as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(autouse=True)
def _configured(issuer: str, hub_settings: Any) -> Iterator[None]:
    hub_settings(
        public_url=PUBLIC,
        oidc_issuer=issuer,
        oidc_client_id="hub",
        oidc_client_secret="s3cret",
        oidc_groups=GROUPS,
        oidc_name="Example Login",
    )
    oidc.cached.clear()
    yield
    oidc.cached.clear()


@pytest.fixture
def person(issuer: str) -> Callable[..., str]:
    """Registers a person at the provider: person("ada", groups=["hub-support"])."""

    def register(sub: str, **claims: Any) -> str:
        response = requests.put(f"{issuer}/users/{sub}", json={"sub": sub, **claims}, timeout=10)
        assert response.ok, response.text
        return sub

    return register


def at_provider(client: Client, sub: str, target: str = "") -> str:
    """Begins in the hub and logs in at the provider. Returns where the provider sends the browser."""
    begun = client.get(reverse("admin:sso"), {"next": target} if target else {})
    assert begun.status_code == 302
    answered = requests.post(begun["Location"], data={"sub": sub}, allow_redirects=False, timeout=10)
    assert answered.status_code == 302, answered.text
    return answered.headers["Location"].removeprefix(PUBLIC)


def log_in(sub: str, client: Client | None = None, target: str = "") -> tuple[Client, Any]:
    client = client or Client()
    return client, client.get(at_provider(client, sub, target))


def message(client: Client) -> str:
    return client.get("/admin/login/").content.decode()


def cause() -> str:
    return str(json.loads(Entry.objects.filter(action="user.log_in_failed").latest("pk").details)["cause"])


@pytest.mark.every_engine
def test_new_user_gets_the_mapped_groups(person: Callable[..., str]) -> None:
    person("1", preferred_username="ada", email="ada@example.com", email_verified=True, groups=["hub-support", "x"])
    client, response = log_in("1", target="/admin/sagas/saga/")
    assert response["Location"] == "/admin/sagas/saga/"
    assert client.get("/admin/sagas/saga/").status_code == 200
    user = User.objects.get(username="ada")
    assert list(user.groups.values_list("name", flat=True)) == ["support"]
    assert (user.is_staff, user.is_superuser, user.email) == (True, False, "ada@example.com")
    assert not user.has_usable_password()
    details = json.loads(Entry.objects.get(action="user.log_in").details)
    assert details["method"] == "sso"


def test_request_to_the_provider_has_state_nonce_and_pkce() -> None:
    client = Client()
    query = parse_qs(urlsplit(client.get(reverse("admin:sso"))["Location"]).query)
    assert query["redirect_uri"] == [f"{PUBLIC}/admin/sso/callback/"]
    assert query["code_challenge_method"] == ["S256"]
    assert all(len(query[name][0]) >= 43 for name in ("state", "nonce", "code_challenge"))
    cookie = client.cookies["hub_sso"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/admin/sso/callback/")
    assert "sessionid" not in client.cookies  # visitors fill no table


def test_user_who_loses_a_group_loses_it_in_the_hub(person: Callable[..., str]) -> None:
    person("2", preferred_username="bob", groups=["hub-support", "hub-ops"])
    client, _ = log_in("2")
    user = User.objects.get(username="bob")
    own = Group.objects.create(name="own")
    user.groups.add(own)
    person("2", preferred_username="bob", groups=["hub-support"])
    log_in("2", client)
    assert set(user.groups.values_list("name", flat=True)) == {"support", "own"}
    # The last group, while a session is open.
    person("2", preferred_username="bob", groups=[])
    _, response = log_in("2")
    assert (response["Location"], cause()) == ("/admin/login/", "no_group")
    user.refresh_from_db()
    assert (user.is_staff, list(user.groups.values_list("name", flat=True))) == (False, ["own"])
    assert client.get("/admin/").status_code == 302


def test_nobody_without_a_mapped_group(person: Callable[..., str]) -> None:
    person("3", preferred_username="eve", groups=["sales"])
    client, response = log_in("3")
    assert response["Location"] == "/admin/login/"
    assert "You are in no group that may use this console" in message(client)
    assert not User.objects.filter(username="eve").exists()


def test_superusers(person: Callable[..., str]) -> None:
    person("4", preferred_username="root", groups=["root"])
    client, _ = log_in("4")
    assert User.objects.get(username="root").is_superuser
    person("4", preferred_username="root", groups=["hub-support"])
    log_in("4", client)
    user = User.objects.get(username="root")
    assert (user.is_superuser, user.is_staff) == (False, True)


def test_existing_user_is_linked_by_a_verified_address(person: Callable[..., str]) -> None:
    local = User.objects.create_user("carol", "Carol@example.com", is_staff=True)
    person("5", preferred_username="c.arol", email="carol@example.com", email_verified=True, groups=["hub-ops"])
    log_in("5")
    assert Identity.objects.get().user == local
    assert list(local.groups.values_list("name", flat=True)) == ["operations"]
    # From now on the subject counts, not the address.
    person("5", preferred_username="other", email="other@example.com", email_verified=False, groups=["hub-ops"])
    log_in("5")
    assert Identity.objects.get().user == local
    assert User.objects.count() == 1


@pytest.mark.parametrize("verified", [{"email_verified": False}, {}, {"email_verified": "true"}])
def test_unverified_address_links_nothing(person: Callable[..., str], verified: dict[str, Any]) -> None:
    User.objects.create_superuser("dora", "dora@example.com")
    person("6", preferred_username="dora", email="dora@example.com", groups=["hub-support"], **verified)
    client, response = log_in("6")
    assert (response["Location"], cause()) == ("/admin/login/", "email_not_verified")
    assert "the provider has not verified" in message(client)
    assert not Identity.objects.exists()
    assert User.objects.count() == 1


def test_name_alone_never_gives_another_users_account(person: Callable[..., str]) -> None:
    User.objects.create_superuser("admin", "admin@example.com")
    person("7", preferred_username="admin", email="x@example.com", email_verified=True, groups=["hub-support"])
    log_in("7")
    user = Identity.objects.get().user
    assert (user.username, user.is_superuser) == ("admin-2", False)


def test_address_that_differs_in_an_accent_is_another_persons(person: Callable[..., str]) -> None:
    User.objects.create_superuser("erin", "erin@example.com")
    person("17", preferred_username="thief", email="erïn@example.com", email_verified=True, groups=["hub-support"])
    log_in("17")
    user = Identity.objects.get().user
    assert (user.username, user.is_superuser) == ("thief", False)


def test_unverified_address_is_not_stored(person: Callable[..., str]) -> None:
    person("8", preferred_username="frank", email="boss@example.com", email_verified=False, groups=["hub-support"])
    log_in("8")
    assert User.objects.get(username="frank").email == ""


def test_address_of_a_linked_user_makes_another_user(person: Callable[..., str]) -> None:
    person("9", preferred_username="gina", email="g@example.com", email_verified=True, groups=["hub-ops"])
    log_in("9")
    person("10", preferred_username="gina", email="g@example.com", email_verified=True, groups=["hub-support"])
    log_in("10")
    assert list(User.objects.order_by("pk").values_list("username", flat=True)) == ["gina", "gina-2"]


def test_inactive_user_is_refused(person: Callable[..., str]) -> None:
    person("11", preferred_username="hugo", groups=["hub-support"])
    log_in("11")
    User.objects.update(is_active=False)
    _, response = log_in("11")
    assert (response["Location"], cause()) == ("/admin/login/", "inactive")


def test_wrong_state_is_refused(person: Callable[..., str]) -> None:
    person("12", preferred_username="ida", groups=["hub-support"])
    client = Client()
    address = at_provider(client, "12")
    for wrong in (address.replace("state=", "state=x"), address.split("&state")[0], address.split("state")[0]):
        other = Client()
        other.cookies["hub_sso"] = client.cookies["hub_sso"].value
        assert (other.get(wrong)["Location"], cause()) == ("/admin/login/", "sso_state")


def test_response_of_another_browser_is_refused(person: Callable[..., str]) -> None:
    """An attacker must not log a victim in as the attacker."""
    person("13", preferred_username="jim", groups=["hub-support"])
    address = at_provider(Client(), "13")
    victim = Client()
    assert victim.get(address)["Location"] == "/admin/login/"
    victim.get(reverse("admin:sso"))  # with a log-in of its own in progress
    assert victim.get(address)["Location"] == "/admin/login/"
    assert cause() == "sso_state"


def test_wrong_nonce_is_refused(
    person: Callable[..., str], monkeypatch: pytest.MonkeyPatch, log_stream: io.StringIO
) -> None:
    person("14", preferred_username="kim", groups=["hub-support"])
    real = oidc.claims_of

    def with_other_nonce(code: str, flow: oidc.Flow, redirect_uri: str) -> dict[str, Any]:
        return real(code, oidc.Flow(flow.state, "another", flow.verifier), redirect_uri)

    monkeypatch.setattr(oidc, "claims_of", with_other_nonce)
    _, response = log_in("14")
    assert (response["Location"], cause()) == ("/admin/login/", "sso_provider")
    assert "another nonce" in log_stream.getvalue()


def test_code_works_once(person: Callable[..., str]) -> None:
    person("15", preferred_username="lea", groups=["hub-support"])
    client = Client()
    address = at_provider(client, "15")
    cookie = client.cookies["hub_sso"].value
    assert client.get(address)["Location"] == "/admin/"
    again = Client()
    again.cookies["hub_sso"] = cookie
    assert (again.get(address)["Location"], cause()) == ("/admin/login/", "sso_provider")


def test_token_of_another_client_is_refused(person: Callable[..., str], hub_settings: Any) -> None:
    person("16", preferred_username="mia", groups=["hub-support"])
    client = Client()
    address = at_provider(client, "16")
    hub_settings(oidc_client_id="other")
    assert client.get(address)["Location"] == "/admin/login/"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x"])
def test_redirects_to_the_console_only(person: Callable[..., str], target: str) -> None:
    person("17", preferred_username="ned", groups=["hub-support"])
    _, response = log_in("17", target=target)
    assert response["Location"] == "/admin/"


def test_refusal_by_the_provider(person: Callable[..., str]) -> None:
    client = Client()
    state = parse_qs(urlsplit(client.get(reverse("admin:sso"))["Location"]).query)["state"][0]
    response = client.get(reverse("admin:sso_callback"), {"error": "access_denied", "state": state})
    assert (response["Location"], cause()) == ("/admin/login/", "sso_provider")


def test_provider_that_does_not_respond(hub_settings: Any) -> None:
    hub_settings(oidc_issuer="http://localhost:1")
    client = Client()
    assert client.get(reverse("admin:sso"))["Location"] == "/admin/login/"
    assert "The log-in at the provider failed" in message(client)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": ""},
    ],
)
def test_wrong_configuration_of_the_provider(
    issuer: str, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    found = oidc._discover()
    monkeypatch.setattr(oidc, "_json", lambda *args, **options: {**found, **change})
    with pytest.raises(oidc.ProviderError):
        oidc._discover()


def test_provider_with_tls_must_not_lead_to_one_without(hub_settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = oidc._discover()
    hub_settings(oidc_issuer="https://login.example.com")
    monkeypatch.setattr(oidc, "_json", lambda *args, **options: {**found, "issuer": "https://login.example.com"})
    with pytest.raises(oidc.ProviderError, match="no valid authorization_endpoint"):
        oidc._discover()


def test_password_log_in_can_be_switched_off(hub_settings: Any) -> None:
    User.objects.create_superuser("root", password="pw")
    hub_settings(password_log_in=False)
    page = Client().get("/admin/login/").content.decode()
    assert "Example Login" in page
    assert "password" not in page.lower().replace("toggle password visibility", "")
    assert Client().post("/admin/login/", {"username": "root", "password": "pw"}).status_code == 403


def test_without_a_provider_there_is_no_single_sign_on(hub_settings: Any) -> None:
    hub_settings(oidc_issuer="")
    assert Client().get(reverse("admin:sso")).status_code == 404
    assert Client().get(reverse("admin:sso_callback")).status_code == 404


@pytest.mark.parametrize(
    ("claim", "claims", "groups"),
    [
        ("groups", {"groups": ["a", "b"]}, {"a", "b"}),
        ("groups", {"groups": "a b,c"}, {"a", "b", "c"}),
        ("groups", {"groups": [1, None, "a"]}, {"a"}),
        ("groups", {"groups": {"a": 1}}, set()),
        ("groups", {}, set()),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://x.example/groups", {"https://x.example/groups": ["a"]}, {"a"}),
    ],
)
def test_groups_claim(hub_settings: Any, claim: str, claims: dict[str, Any], groups: set[str]) -> None:
    hub_settings(oidc_groups_claim=claim)
    assert oidc.groups_of(claims) == groups


def test_names_are_made_valid() -> None:
    assert sso._name({"preferred_username": "Ada Lovelace <x>", "sub": "1"}) == "Ada_Lovelace__x_"
    assert sso._name({"sub": "1" * 200}) == "1" * 150


def signed(claims: dict[str, Any], key: Any, algorithm: str, **headers: Any) -> str:
    import jwt

    return jwt.encode(claims, key, algorithm, headers=headers)


def test_forged_tokens_are_refused(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = int(time.time())
    own = rsa.generate_private_key(65537, 2048)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(own.public_key(), as_dict=True)
    key_set = jwt.PyJWKSet.from_dict({"keys": [{**public, "kid": "k", "use": "sig"}]})
    monkeypatch.setattr(oidc.cached, "_keys", key_set)
    monkeypatch.setattr(oidc.cached, "_keys_at", time.monotonic())
    good = {"iss": issuer, "aud": "hub", "sub": "1", "nonce": "n", "iat": now, "exp": now + 60}
    assert oidc._verified(signed(good, own, "RS256", kid="k"), "n")["sub"] == "1"
    stranger = rsa.generate_private_key(65537, 2048)
    forged = {
        "another key": signed(good, stranger, "RS256", kid="k"),
        "an unknown key": signed(good, stranger, "RS256", kid="x"),
        "no signature": signed(good, None, "none", kid="k"),
        "a shared secret": signed(good, "s3cret" * 10, "HS256", kid="k"),
        "expired": signed({**good, "exp": now - 120}, own, "RS256", kid="k"),
        "without an end": signed({name: good[name] for name in good if name != "exp"}, own, "RS256", kid="k"),
        "another issuer": signed({**good, "iss": "https://evil.example"}, own, "RS256", kid="k"),
        "another audience": signed({**good, "aud": "other"}, own, "RS256", kid="k"),
        "another client": signed({**good, "aud": ["hub", "other"], "azp": "other"}, own, "RS256", kid="k"),
        "another nonce": signed({**good, "nonce": "m"}, own, "RS256", kid="k"),
        "no nonce": signed({name: good[name] for name in good if name != "nonce"}, own, "RS256", kid="k"),
        "no subject": signed({**good, "sub": ""}, own, "RS256", kid="k"),
        "garbage": "x.y.z",
        "empty": "",
    }
    for what, token in forged.items():
        with pytest.raises(oidc.ProviderError):
            raise AssertionError(f"{what}: {oidc._verified(token, 'n')}")


def test_visitors_do_not_wait_for_a_provider_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, release = [], threading.Event()

    def hang() -> dict[str, Any]:
        reads.append(1)
        release.wait(30)
        raise oidc.ProviderError("no response")

    monkeypatch.setattr(oidc, "_discover", hang)

    def read() -> None:
        with pytest.raises(oidc.ProviderError):
            oidc.cached.configuration()

    first = threading.Thread(target=read)
    first.start()
    while not reads:
        release.wait(0.01)
    for _ in range(20):  # while the first one waits
        read()
    release.set()
    first.join()
    for _ in range(20):  # soon after it has failed
        read()
    assert len(reads) == 1


def test_few_log_ins_wait_for_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Semaphore(0), threading.Event()

    def hang(*args: Any) -> dict[str, Any]:
        entered.release()
        release.wait(30)
        return {}

    monkeypatch.setattr(oidc, "_claims", hang)
    flow = oidc.Flow("s", "n", "v")
    threads = [threading.Thread(target=oidc.claims_of, args=["c", flow, "u"]) for _ in range(oidc.PARALLEL)]
    for thread in threads:
        thread.start()
        entered.acquire(timeout=10)
    with pytest.raises(oidc.ProviderError, match="too many"):
        oidc.claims_of("c", flow, "u")
    release.set()
    for thread in threads:
        thread.join()
    assert oidc.claims_of("c", flow, "u") == {}


def test_codes_from_one_address_are_limited(person: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "ADDRESS", throttle.Limit("address", 3, 3600))
    monkeypatch.setattr(oidc, "claims_of", lambda *args: (_ for _ in ()).throw(oidc.ProviderError("no")))
    person("20", preferred_username="zoe", groups=["hub-support"])
    causes = []
    for _ in range(5):
        log_in("20")
        causes.append(cause())
    assert causes == ["sso_provider"] * 3 + ["sso_too_many_attempts"] * 2
