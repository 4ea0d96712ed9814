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
