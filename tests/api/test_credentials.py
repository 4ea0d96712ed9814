"""The credentials of a subscription in the API."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from api.scopes import READ
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.support.client_certificates import DAY, ClientAuthority

from .conftest import Program

pytestmark = pytest.mark.django_db


def set_path(subscription: Subscription, verb: str = "set-client-certificate") -> str:
    return f"/subscriptions/{subscription.pk}/{verb}"


def test_a_client_certificate_is_set_shown_and_removed(hub_wide: Program):
    subscription = SubscriptionFactory.create()
    pair = ClientAuthority().pair("hub", valid=(-DAY, 20 * DAY))

    answer = hub_wide.post(set_path(subscription), {"certificate": pair.certificate, "private_key": pair.key})

    assert answer.status_code == 200
    shown = hub_wide.get(f"/subscriptions/{subscription.pk}").json()
    assert shown == answer.json()
    certificate = shown["client_certificate"]
    assert (certificate["subject"], certificate["expires_soon"]) == ("CN=hub", True)
    assert certificate.keys() == {"subject", "issuer", "expires_at", "expires_soon", "fingerprint"}
    assert "BEGIN" not in str(shown)
    for _ in range(2):
        removed = hub_wide.post(set_path(subscription, "remove-client-certificate"))
        assert removed.status_code == 200
        assert removed.json()["client_certificate"] is None


def test_a_bad_certificate_is_refused_by_field(hub_wide: Program):
    subscription = SubscriptionFactory.create()
    pair, other = ClientAuthority().pair(), ClientAuthority().pair()

    answer = hub_wide.post(set_path(subscription), {"certificate": pair.certificate, "private_key": other.key})

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["private_key"]
    assert other.key.split("\n")[1] not in answer.content.decode()
    assert hub_wide.post("/subscriptions/999999/remove-client-certificate").status_code == 404


def test_a_key_that_only_reads_cannot_change_credentials(program: Callable[..., Program]):
    reader = program("reader", READ)
    subscription = SubscriptionFactory.create()
    pair = ClientAuthority().pair()

    body = {"certificate": pair.certificate, "private_key": pair.key}
    assert reader.post(set_path(subscription), body).status_code == 403
    assert reader.post(set_path(subscription, "remove-client-certificate")).status_code == 403


def test_an_oauth2_client_is_set_shown_without_its_secret_and_removed(hub_wide: Program):
    subscription = SubscriptionFactory.create()
    body = {"token_url": "https://login.example.com/token?x=hidden", "client_id": "hub", "client_secret": "s3cret"}

    answer = hub_wide.post(set_path(subscription, "set-oauth2-client"), body | {"scope": "hooks"})

    assert answer.status_code == 200
    shown = hub_wide.get(f"/subscriptions/{subscription.pk}").json()
    assert shown["oauth2_client"] == {
        "token_url": "https://login.example.com/token?x=***",
        "client_id": "hub",
        "scope": "hooks",
        "audience": "",
        "authentication": "basic",
    }
    assert "s3cret" not in str(shown)
    headers = {"headers": {"Authorization": "Bearer x"}}
    assert hub_wide.patch(f"/subscriptions/{subscription.pk}", headers).status_code == 422
    for _ in range(2):
        removed = hub_wide.post(set_path(subscription, "remove-oauth2-client"))
        assert removed.json()["oauth2_client"] is None
    # The other way round:
    assert hub_wide.patch(f"/subscriptions/{subscription.pk}", headers).status_code == 200
    assert hub_wide.post(set_path(subscription, "set-oauth2-client"), body).status_code == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"token_url": "http://login.example.com/"}, "token_url"),
        ({"token_url": "https://127.1/"}, "token_url"),
        ({"client_id": ""}, "client_id"),
        ({"client_secret": "a\nb"}, "client_secret"),
        ({"scope": "x" * 1001}, "scope"),
        ({"authentication": "jwt"}, "authentication"),
    ],
)
def test_a_bad_oauth2_client_is_refused_by_field(hub_wide: Program, change: dict[str, str], field: str):
    subscription = SubscriptionFactory.create()
    good = {"token_url": "https://login.example.com/token", "client_id": "hub", "client_secret": "s3cret"}

    answer = hub_wide.post(set_path(subscription, "set-oauth2-client"), good | change)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert Subscription.objects.get(pk=subscription.pk).credentials is None
