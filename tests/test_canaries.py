"""Sends twenty recognisable texts through every part of the hub: none is in a log line, and no secret is in the
database."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from api import keys
from api.scopes import SCOPES
from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.errors import EventConflict, InvalidEvent
from events.intake import publish
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.support import drive
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from tools.support.raw_endpoint import RawEndpoint, responding
from webhookhub import crypto, logs
from webhookhub.conf import hub

pytestmark = pytest.mark.django_db

PASSWORD = "canary-password-Q7"
WRONG_PASSWORD = "canary-wrong-password-Q7"
HEADERS = {"steady": "canary-header-A1", "broken": "canary-header-B2"}
QUERIES = {"steady": "token=canary-query-A1", "broken": "token=canary-query-B2"}
PAYLOADS = [
    "canary-value",
    "canary-key",
    "canary-nested",
    "canary-refused",
    "canary-conflict",
    "canary-by-command",
    "canary-over-http",
]
BODIES = {"steady": "canary-body-ok", "broken": "canary-body-failed", "unverified": "canary-body-unverified"}
RESPONSE_HEADER = "canary-response-header"
SEARCH = "canary-search"


@dataclass
class Canaries:
    secret: set[str] = field(default_factory=set)  # neither in the logs nor in the database
    private: set[str] = field(default_factory=set)  # not in the logs

    def add_secrets_of(self, subscription: Subscription) -> None:
        for token in (subscription.secret, subscription.previous_secret):
            if token:
                # Without the prefix, which signatures and public keys have, too.
                self.secret.add(crypto.decrypt(token).split("_", 1)[1].rstrip("="))


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """All log lines at level DEBUG, in the hub's own format."""
    root = logging.getLogger()
    logs.configure("DEBUG", request.param)
    output = io.StringIO()
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(output)
    yield output
    logs.configure(hub().log_level, hub().log_format)


def respond(request: Received) -> Reply:
    name = request.path.split("?")[0].strip("/")
    headers = (("Set-Cookie", RESPONSE_HEADER), ("X-Canary", RESPONSE_HEADER))
    return Reply(200 if name == "steady" else 500, BODIES[name].encode(), headers)


def subscribe(client: Client, endpoint: HttpsEndpoint, name: str, scheme: str) -> Subscription:
    """Subscribes in the console, with a custom header and a query string."""
    url = endpoint.url(f"/{name}?{QUERIES[name]}")
    form = {"event_type": "order.created", "callback_url": url, "active": "on", "signing_scheme": scheme}
    client.post(
        reverse("admin:subscriptions_subscription_add"),
        form | {"headers": f"Authorization: Bearer {HEADERS[name]}", "max_retry_limit": "2", "base_delay": "0.01"},
    )
    return Subscription.objects.get(callback_url=url)


def open_every_page(client: Client) -> int:
    """Opens every list, every row's page and its history. Returns the number of pages."""
    pages = 0
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        urls = [reverse(f"{name}_changelist"), reverse(f"{name}_changelist") + f"?q={SEARCH}"]
        for pk in model._default_manager.values_list("pk", flat=True):
            urls += [reverse(f"{name}_change", args=[pk]), reverse(f"{name}_history", args=[pk])]
        for url in urls:
            assert client.get(url, follow=True).status_code == 200
            pages += 1
    assert client.get(f"/nowhere/?q={SEARCH}").status_code == 404
    return pages


def everything_stored() -> dict[str, str]:
    """Every column of every row, as text, by table."""
    stored = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            stored[table] = "\n".join(_text(value) for row in cursor.fetchall() for value in row)
    return stored


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def send_over_http(canaries: Canaries) -> None:
    _, text = keys.create("canary", SCOPES, by="tests")
    canaries.secret.add(text.split("_", 2)[2])
    program = Client(headers={"Authorization": f"Bearer {text}"})
    good = {"event_type": "order.created", "payload": {"e": PAYLOADS[6]}, "external_id": "e2"}
    for body, status in ((good, 201), (good | {"payload": PAYLOADS[3]}, 409), (good | {PAYLOADS[3]: 1}, 422)):
        response = program.post("/api/v1/events", body, content_type="application/json")
        assert response.status_code == status
    subscription = {
        "event_type": "x",
        "callback_url": "https://127.0.0.1:1025/",
        "headers": {"X-Canary": HEADERS["steady"]},
    }
    response = program.post("/api/v1/subscriptions", subscription, content_type="application/json")
    canaries.secret.add(response.json()["secret"].split("_", 1)[1].rstrip("="))
    wrong = {"Authorization": f"Bearer {text[:-1]}"}
    assert program.get(f"/api/v1/deliveries?correlation_id={SEARCH}", headers=wrong).status_code == 401
    assert program.get(f"/api/v1/deliveries?correlation_id={SEARCH}").status_code == 200


def use_every_feature(canaries: Canaries, endpoint: HttpsEndpoint, failing: RawEndpoint) -> Client:
    User.objects.create_superuser("root", password=PASSWORD)
    client = Client()
    login = reverse("admin:login")
    assert client.post(login, {"username": "root", "password": WRONG_PASSWORD}).status_code == 200
    assert client.post(login, {"username": "root", "password": PASSWORD}).status_code == 302
    endpoint.respond = respond

    steady = subscribe(client, endpoint, "steady", "v1")
    broken = subscribe(client, endpoint, "broken", "v1a")
    silent = Subscription.objects.create(event_type="order.created", callback_url=failing.url)
    for subscription in (steady, broken, silent):
        canaries.add_secrets_of(subscription)
    quiet = io.StringIO()
    for subscription in (steady, broken):
        call_command("verify_subscription", subscription.pk, stdout=quiet)
    with pytest.raises(CommandError, match="the endpoint responded with 500"):
        call_command("verify_subscription", silent.pk, stdout=quiet)
    call_command("send_test", subscription=steady.pk, stdout=quiet)
    with pytest.raises(CommandError):
        call_command("send_test", subscription=broken.pk, stdout=quiet)
    for verb in ("verify", "test", "rotate"):
        page = reverse(f"admin:subscriptions_subscription_{verb}", args=[steady.pk])
        client.post(page, {"reason": "test"}, follow=True)
    call_command("rotate_secret", broken.pk, stdout=quiet)
    call_command("reencrypt_secrets", stdout=quiet)
    for subscription in (steady, broken):
        subscription.refresh_from_db()
        canaries.add_secrets_of(subscription)

    publish("order.created", {"a": PAYLOADS[0], PAYLOADS[1]: [{"c": PAYLOADS[2]}]}, external_id="e1")
    call_command("publish_event", "order.created", json.dumps({"d": PAYLOADS[5]}), stdout=quiet)
    with pytest.raises(InvalidEvent):
        publish("order.created", {"a": PAYLOADS[3], "b": float("nan")})
    with pytest.raises(CommandError):
        call_command("publish_event", "order.created", f'{{"a": "{PAYLOADS[3]}"', stdout=quiet)
    with pytest.raises(EventConflict):
        publish("order.created", {"a": PAYLOADS[4]}, external_id="e1")
    send_over_http(canaries)
    drive.until_terminal()
    [letter, *_] = DeadLetter.objects.all()
    requeue([letter.pk], by=User.objects.get(), reason="retry")
    drive.until_terminal()
    return client


@pytest.mark.parametrize(("log", "debug"), [("json", True)], indirect=["log"])
def test_no_canary_leaks(
    log: io.StringIO,
    endpoint: HttpsEndpoint,
    certificate_files: tuple[Path, Path],
    hub_settings: Callable[..., None],
    settings: Any,
    debug: bool,
):
    settings.DEBUG = debug
    keys = (crypto.new_key(), crypto.new_key())
    hub_settings(encryption_keys=keys)
    canaries = Canaries({*keys, PASSWORD, WRONG_PASSWORD, *HEADERS.values()})
    canaries.private = {*QUERIES.values(), *PAYLOADS, *BODIES.values(), RESPONSE_HEADER, SEARCH, settings.SECRET_KEY}
    body = BODIES["unverified"].encode()
    error = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    with RawEndpoint(certificate_files[1], responding(error)) as failing:
        client = use_every_feature(canaries, endpoint, failing)
        # A delivery that cannot be signed.
        hub_settings(encryption_keys=(crypto.new_key(),))
        publish("order.created", {"a": PAYLOADS[0]})
        drive.until_terminal()
        hub_settings(encryption_keys=keys)
        pages = open_every_page(client)

    # The canaries were really used.
    arrived = "".join(str(request.headers) + request.path + request.body.decode() for request in endpoint.received)
    assert all(canary in arrived for canary in [*HEADERS.values(), *QUERIES.values(), *PAYLOADS[:3], PAYLOADS[5]])
    assert {BODIES["steady"], BODIES["broken"]} <= set(Job.objects.values_list("response_snippet", flat=True))
    assert set(Job.objects.values_list("error_code", flat=True)) == {None, "http_500", "signing_error"}
    assert set(Saga.objects.values_list("generation", flat=True)) == {0, 1}
    assert pages > 30
    assert len(canaries.secret | canaries.private) >= 20

    lines = log.getvalue()
    for name in ("event_published", "job_reported", "saga_dead_lettered", "saga_requeued", "secret_rotated"):
        assert name in lines
    assert [canary for canary in canaries.secret | canaries.private if canary in lines] == []
    stored = everything_stored()
    assert {"subscriptions", "django_admin_log", "django_session", "auth_user"} <= set(stored)
    assert PAYLOADS[0] in stored["events"]
    assert [(c, table) for c in canaries.secret for table, text in stored.items() if c in text] == []
    # Not in an escaped form, either: compare letters and digits only.
    plain = {re.sub(r"[^A-Za-z0-9]", "", canary) for canary in canaries.secret}
    plain_tables = {table: re.sub(r"[^A-Za-z0-9\n]", "", text) for table, text in stored.items()}
    assert [(c, table) for c in plain for table, text in plain_tables.items() if c in text] == []
