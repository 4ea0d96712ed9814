"""Client certificates of subscriptions: checked, encrypted, never shown again."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from jobs.worker import Worker
from subscriptions import credential_services, services
from subscriptions.client_certificates import MAX_CERTIFICATE_LENGTH, MAX_KEY_LENGTH
from subscriptions.credentials import InvalidCredentials, OAuth2Client, parse
from subscriptions.models import Subscription
from subscriptions.reencryption import reencrypt
from subscriptions.sample_delivery import send_test
from subscriptions.verification import verify
from tests.factories import EventFactory, JobFactory, SubscriptionFactory
from tests.jobs.test_worker import finished, turn_until
from tests.support.client_certificates import DAY, ClientAuthority, Pair
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import crypto
from webhookhub.auditlog.models import Entry
from webhookhub.conf import hub
from webhookhub.console.request_preview import preview

pytestmark = pytest.mark.django_db
REASON = "asked for by the partner"


@pytest.fixture(scope="module")
def partner() -> ClientAuthority:
    return ClientAuthority()


@pytest.fixture(scope="module")
def pair(partner: ClientAuthority) -> Pair:
    return partner.pair("hub of acme")


@pytest.fixture
def subscription() -> Subscription:
    created: Subscription = SubscriptionFactory.create()
    return created


def encrypted(pair: Pair) -> str:
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    ).decode()


def test_a_certificate_is_stored_encrypted_and_only_its_facts_are_shown(
    subscription: Subscription, partner: ClientAuthority, pair: Pair
):
    facts = credential_services.set_certificate(subscription, pair.certificate + partner.pem, pair.key)

    assert facts == credential_services.certificate_facts(subscription)
    assert (facts.subject, facts.issuer) == ("CN=hub of acme", "CN=partner authority")
    assert len(facts.fingerprint) == 95
    stored = Subscription.objects.get(pk=subscription.pk)
    assert stored.certificate_expires_at == facts.expires_at
    assert stored.credentials is not None
    assert "BEGIN" not in stored.credentials
    assert crypto.decrypt(stored.credentials).count("BEGIN CERTIFICATE") == 2
    entry = Entry.objects.latest("id")
    assert entry.action == "subscription.set_client_certificate"
    assert facts.fingerprint in str(entry.details)
    assert "PRIVATE" not in str(entry.details)


def bad_pairs(partner: ClientAuthority, pair: Pair) -> dict[str, tuple[Pair, str, str]]:
    return {
        "no certificate": (Pair("hello", pair.key), "certificate", "PEM form"),
        "damaged": (Pair(pair.certificate[:200] + pair.certificate[210:], pair.key), "certificate", "PEM form"),
        "key as certificate": (Pair(pair.key, pair.key), "certificate", "PEM form"),
        "too long": (Pair("x" * (MAX_CERTIFICATE_LENGTH + 1), pair.key), "certificate", "more than"),
        "key too long": (Pair(pair.certificate, "x" * (MAX_KEY_LENGTH + 1)), "private_key", "more than"),
        "no key": (Pair(pair.certificate, "hello"), "private_key", "PEM form"),
        "encrypted": (Pair(pair.certificate, encrypted(pair)), "private_key", "without a password"),
        "another key": (Pair(pair.certificate, partner.pair().key), "private_key", "does not belong"),
        "weak key": (partner.pair(rsa_bits=1024), "private_key", "2048"),
        "expired": (partner.pair(valid=(-3 * DAY, -DAY)), "certificate", "has expired"),
        "too early": (partner.pair(valid=(DAY, 3 * DAY)), "certificate", "not valid before"),
    }


def test_a_pair_that_cannot_work_is_refused(subscription: Subscription, partner: ClientAuthority, pair: Pair):
    for case, (bad, field, message) in bad_pairs(partner, pair).items():
        with pytest.raises(InvalidCredentials) as caught:
            credential_services.set_certificate(subscription, bad.certificate, bad.key)
        assert list(caught.value.errors) == [field], case
        assert message in caught.value.errors[field], case
    subscription.refresh_from_db()
    assert subscription.credentials is None


def test_removing(subscription: Subscription, pair: Pair):
    assert not credential_services.remove_certificate(subscription)
    credential_services.set_certificate(subscription, *pair)

    assert credential_services.remove_certificate(subscription)
    assert (subscription.credentials, subscription.certificate_expires_at) == (None, None)
    assert Entry.objects.latest("id").action == "subscription.remove_client_certificate"


def test_another_host_does_not_get_the_credentials(subscription: Subscription, pair: Pair):
    credential_services.set_certificate(subscription, *pair)

    with pytest.raises(services.InvalidSubscription, match="meant for the old host"):
        services.change(subscription, {"callback_url": "https://127.0.0.1:1026/hook"})
    subscription.refresh_from_db()
    services.change(subscription, {"callback_url": "https://127.0.0.1:1025/other"})


def test_reencryption_and_lost_keys(subscription: Subscription, pair: Pair, hub_settings: Callable[..., None]):
    credential_services.set_certificate(subscription, *pair)
    [old], new = hub().encryption_keys, crypto.new_key()
    hub_settings(encryption_keys=(new, old))
    assert reencrypt().done == 1
    hub_settings(encryption_keys=(new,))
    subscription.refresh_from_db()
    assert credential_services.certificate_facts(subscription) is not None

    Subscription.objects.update(credentials="gAAAA")
    subscription.refresh_from_db()
    assert credential_services.are_unreadable(subscription)
    assert credential_services.certificate_facts(subscription) is None
    assert send_test(subscription).response.error_code == "credentials_error"
    with pytest.raises(InvalidCredentials, match="Remove them first"):
        credential_services.set_certificate(subscription, *pair)
    assert credential_services.remove_certificate(subscription)
    credential_services.set_certificate(subscription, *pair)


def test_deliveries_verifications_and_test_events_show_the_certificate(trusted_strict: HttpsEndpoint, pair: Pair):
    job = JobFactory.create(saga__subscription__callback_url=trusted_strict.url())
    subscription = job.saga.subscription
    assert verify(subscription).result == "client_certificate_required"
    credential_services.set_certificate(subscription, *pair)

    assert verify(subscription).verified
    assert send_test(subscription).response.error_code is None
    worker = Worker("w")
    turn_until(worker, finished)
    worker.close()

    assert [request.client for request in trusted_strict.received] == ["hub of acme"] * 2


@pytest.fixture
def trusted_strict(certificate_files, hub_settings, tmp_path: Path, partner: ClientAuthority):
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority))
    (tmp_path / "partner.pem").write_text(partner.pem)
    with HttpsEndpoint(server, client_authority=tmp_path / "partner.pem") as running:
        yield running


def test_the_command(subscription: Subscription, pair: Pair, tmp_path: Path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)

    def run(*arguments: object) -> str:
        output = io.StringIO()
        call_command("client_certificate", str(subscription.pk), *map(str, arguments), stdout=output)
        return output.getvalue()

    assert run() == "There is none.\n"
    stored = run("--certificate", certificate, "--key", key)
    assert stored == run()
    assert "subject: CN=hub of acme" in stored
    assert "PRIVATE" not in stored
    with pytest.raises(CommandError, match="together"):
        run("--key", key)
    with pytest.raises(CommandError, match="PEM form"):
        run("--certificate", key, "--key", key)
    with pytest.raises(CommandError, match="cannot be read"):
        run("--certificate", tmp_path / "none", "--key", key)
    assert run("--remove") == "Removed.\n"


def page(name: str, subscription: Subscription) -> str:
    return reverse(f"admin:subscriptions_subscription_{name}", args=[subscription.pk])


def test_the_console_needs_its_own_permission(staff: Callable[..., Client], subscription: Subscription, pair: Pair):
    other = staff("other", "view_subscription", "change_subscription", "reveal_secret", "verify_subscription")
    for name in ("client_certificate", "remove_client_certificate"):
        assert other.get(page(name, subscription)).status_code == 403
        assert other.post(page(name, subscription), {"reason": REASON}).status_code == 403
    allowed = staff("allowed", "view_subscription", "change_credentials")
    form = {"certificate": pair.certificate, "private_key": pair.key, "reason": REASON}

    assert allowed.get(page("client_certificate", subscription)).status_code == 200
    assert allowed.post(page("client_certificate", subscription), form).status_code == 302
    shown = other.get(page("change", subscription)).content.decode()
    assert "CN=hub of acme" in shown
    assert "PRIVATE" not in shown
    assert page("client_certificate", subscription) not in shown
    assert Entry.objects.latest("id").reason == REASON
    assert allowed.post(page("remove_client_certificate", subscription), {"reason": REASON}).status_code == 302
    subscription.refresh_from_db()
    assert subscription.credentials is None


def test_a_refused_key_is_not_sent_back(staff: Callable[..., Client], subscription: Subscription, pair: Pair):
    client = staff("allowed", "view_subscription", "change_credentials")
    form = {"certificate": "hello", "private_key": pair.key, "reason": REASON}

    answer = client.post(page("client_certificate", subscription), form).content.decode()

    assert "PEM form" in answer
    assert "PRIVATE KEY-----\n" not in answer
    assert pair.key.split("\n")[1] not in answer


def test_an_expiring_certificate_is_reported(superuser: Client, partner: ClientAuthority):
    soon, later = SubscriptionFactory.create(), SubscriptionFactory.create()
    credential_services.set_certificate(soon, *partner.pair(valid=(-DAY, 29 * DAY)))
    credential_services.set_certificate(later, *partner.pair(valid=(-DAY, 31 * DAY)))

    assert "expires soon" in superuser.get(page("change", soon)).content.decode()
    assert "expires soon" not in superuser.get(page("change", later)).content.decode()
    overview = superuser.get(reverse("admin:index"), follow=True).content.decode()
    assert "The client certificate of 1 active subscription" in overview
    listed = superuser.get(reverse("admin:subscriptions_subscription_changelist") + "?certificate=expiring")
    assert [row.pk for row in listed.context["cl"].result_list] == [soon.pk]


OAUTH2 = {
    "token_url": "https://login.example.com/token",
    "client_id": "hub",
    "client_secret": "s3cret-of-the-client",
    "authentication": "post",
    "reason": REASON,
}


def test_an_oauth2_client_in_the_console(staff: Callable[..., Client], subscription: Subscription, pair: Pair):
    other = staff("other", "view_subscription", "change_subscription", "reveal_secret")
    allowed = staff("allowed", "view_subscription", "change_credentials")
    assert other.post(page("oauth2_client", subscription), OAUTH2).status_code == 403
    assert other.post(page("remove_oauth2_client", subscription), {"reason": REASON}).status_code == 403

    refused = allowed.post(page("oauth2_client", subscription), OAUTH2 | {"token_url": "http://x"}).content.decode()
    assert "must start with https" in refused
    assert "s3cret-of-the-client" not in refused
    assert allowed.post(page("oauth2_client", subscription), OAUTH2).status_code == 302
    credential_services.set_certificate(subscription, *pair)
    shown = other.get(page("change", subscription)).content.decode()
    assert "https://login.example.com/token" in shown
    assert "s3cret-of-the-client" not in shown
    assert "s3cret-of-the-client" not in str(list(Entry.objects.values()))
    # One can be removed without the other.
    assert allowed.post(page("remove_oauth2_client", subscription), {"reason": REASON}).status_code == 302
    subscription.refresh_from_db()
    assert credential_services.shown_oauth2(subscription) is None
    assert credential_services.certificate_facts(subscription) is not None


def test_the_request_preview_hides_the_token(subscription: Subscription):
    credential_services.set_oauth2(subscription, OAuth2Client("https://login.example.com/token", "hub", "s3cret"))

    shown = preview(EventFactory.create(), subscription, 1)

    assert "Authorization: Bearer •••" in shown.text
    assert "s3cret" not in shown.text


def test_the_command_reads_the_client_secret_from_standard_input(
    subscription: Subscription, monkeypatch: pytest.MonkeyPatch
):
    def run(*arguments: str) -> str:
        output = io.StringIO()
        call_command("oauth2_client", str(subscription.pk), *arguments, stdout=output)
        return output.getvalue()

    assert run() == "There is none.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))
    stored = run("--token-url", "https://login.example.com/token", "--client-id", "hub")
    assert stored == "token url: https://login.example.com/token\nclient id: hub\nauthentication: basic\n"
    assert parse(subscription.__class__.objects.get().credentials).oauth2 == OAuth2Client(
        "https://login.example.com/token", "hub", "s3cret"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="client_secret: must not be empty"):
        run("--token-url", "https://login.example.com/token", "--client-id", "hub")
    assert run("--remove") == "Removed.\n"
