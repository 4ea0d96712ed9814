"""A running hub of a small shop, with sample deliveries."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.test import Client

from events.intake import NewEvent, publish_many
from jobs.models import Job
from sagas.models import Saga
from subscriptions.models import Subscription
from subscriptions.verification import verify
from tools.demo import certificates, run
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from tools.support.ports import free_port
from webhookhub.accounts import second_factor
from webhookhub.accounts.second_factor_views import PENDING
from webhookhub.db import clock
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

# event type, path, attempts allowed
ENDPOINTS = (
    ("order.created", "/warehouse/orders", None),
    ("order.created", "/analytics/orders", None),
    ("invoice.issued", "/accounting/invoices", None),
    ("customer.updated", "/crm/customers", 3),
)
EVENTS = {"order.created": 60, "invoice.issued": 20, "customer.updated": 6}
TIMEOUT_SECONDS = 90.0


@dataclass(frozen=True)
class Stage:
    home: str
    session: str
    pending: str  # of a user who has entered the password
    delivery: int  # dead-lettered
    subscription: int


def answer(request: Received) -> Reply:
    if request.path.startswith("/crm"):
        return Reply(503, b'{"error": "maintenance", "message": "The CRM is being upgraded. Try again later."}')
    if request.path.startswith("/accounting") and int(request.event_uid[-2:], 16) % 3 == 0 and request.attempt < 3:
        return Reply(500, b"database is locked")
    return Reply()


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    os.environ["WEBHOOKHUB_ALLOWED_HOSTS"] = "localhost,127.0.0.1"
    call_command("migrate", verbosity=0)
    web = f"127.0.0.1:{free_port()}"
    os.environ |= {
        "WEBHOOKHUB_PUBLIC_URL": f"http://{web}",
        # Only named on the log-in page.
        "WEBHOOKHUB_OIDC_ISSUER": "https://login.example.com",
        "WEBHOOKHUB_OIDC_CLIENT_ID": "webhookhub",
        "WEBHOOKHUB_OIDC_CLIENT_SECRET": "none",
        "WEBHOOKHUB_OIDC_GROUPS": "hub-support=support",
        "WEBHOOKHUB_OIDC_NAME": "Example Login",
    }
    with HttpsEndpoint(folder / certificates.SERVER, answer) as endpoint, run.hub(folder, "--web", web):
        subscriptions = [subscribe(endpoint, *raw_endpoint) for raw_endpoint in ENDPOINTS]
        add_past_hour(subscriptions)
        publish()
        wait_until_settled()
        dead = Saga.objects.filter(status="DeadLettered").order_by("id")[0]
        user = User.objects.create_superuser("operator", password="only for pictures")
        client = Client()
        client.force_login(user)
        yield Stage(
            home=f"http://{web}",
            session=client.cookies["sessionid"].value,
            pending=pending_session(),
            delivery=dead.pk,
            subscription=dead.subscription_id,
        )


def pending_session() -> str:
    user = User.objects.create_superuser("ada")
    second_factor.add_app(user, second_factor.new_secret(), 0)
    session = SessionStore()
    session[PENDING] = {"user": user.pk, "at": time.time(), "next": "/admin/"}
    session.create()
    return str(session.session_key)


def subscribe(endpoint: HttpsEndpoint, event_type: str, path: str, limit: int | None) -> Subscription:
    subscription = Subscription.objects.create(
        event_type=event_type,
        callback_url=endpoint.url(path),
        description=path.split("/")[1],
        max_retry_limit=limit,
    )
    assert verify(subscription).verified
    return subscription


def publish() -> None:
    for event_type, count in EVENTS.items():
        events = [
            NewEvent(
                event_type,
                {
                    "id": 4200 + number,
                    "customer": {"shop": "Café Übersee", "city": "臺北"},
                    "lines": [{"sku": "A-17", "quantity": 2, "price": "19.90"}],
                    "total": "39.80",
                },
                source="shop",
                external_id=f"{event_type}-{4200 + number}",
                correlation_id=f"checkout-{4200 + number}",
            )
            for number in range(count)
        ]
        publish_many(events)


def wait_until_settled() -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        routed = Saga.objects.count() >= 2 * EVENTS["order.created"]
        unfinished = Saga.objects.exclude(status__in=("Completed", "DeadLettered")) or Job.objects.filter(
            settled_at=None
        )
        if routed and not unfinished:
            return
        time.sleep(0.2)
    raise SystemExit("The sample deliveries did not finish in time.")


def add_past_hour(subscriptions: list[Subscription]) -> None:
    """Adds counters for the past hour, with an endpoint that was down for some minutes."""
    now = clock.now()
    for minute in range(1, 60):
        at = now - timedelta(minutes=minute)
        rows = []
        for index, subscription in enumerate(subscriptions[:3]):
            count = 18 + (minute * (7 + index) % 11) + (10 if 20 < minute < 40 else 0) - 4 * index
            down = index == 2 and 24 <= minute <= 31
            rows += [
                AttemptResult(subscription.pk, "retried", "http_500", at, at, 900 + 40 * (number % 7))
                if down
                else AttemptResult(subscription.pk, "completed", None, at, at, 18 + 23 * (number % 9))
                for number in range(count)
            ]
            if down and minute % 3 == 0:
                rows += [AttemptResult(subscription.pk, "dead_lettered", "http_500", at, at, 950)] * 2
        attempts.add(rows)
