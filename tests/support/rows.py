"""One row of every table in the console, with content that tries to break the page."""

from __future__ import annotations

import json
import re
from typing import Any

from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter
from jobs.models import Job
from sagas.models import Saga
from tests.factories import EventFactory, JobFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db import clock
from webhookhub.models import Process

HOSTILE = "<script>alert(1)</script>'\"&</pre></td>‮שלום 🦊 {{ 7|add:7 }}"
MACHINE_MADE = ["events_event", "sagas_saga", "jobs_job", "deadletters_deadletter", "webhookhub_process"]
ALL = [*MACHINE_MADE, "subscriptions_subscription"]


def listing(name: str, query: str = "") -> str:
    return reverse(f"admin:{name}_changelist") + query


def change(name: str, pk: object) -> str:
    return reverse(f"admin:{name}_change", args=[pk])


def add(name: str) -> str:
    return reverse(f"admin:{name}_add")


def delete(name: str, pk: object) -> str:
    return reverse(f"admin:{name}_delete", args=[pk])


def seen(client: Client, subscription: int) -> dict[str, str]:
    """The hidden fields of a subscription's form that is opened now."""
    page = client.get(change("subscriptions_subscription", subscription)).content.decode()
    form = page.partition('id="subscription_form"')[2].partition("</form>")[0]
    [hidden] = re.findall(r'<input type="hidden" name="seen" value="(\w+)"', form)
    return {"seen": hidden}


def dead_letter(text: str = "x", **saga: Any) -> DeadLetter:
    """A dead letter with its delivery, event, subscription and last attempt."""
    event = EventFactory(
        source=text[:100], external_id=text, correlation_id=text, payload=json.dumps({text: [text, {"n": 1}]})
    )
    subscription = SubscriptionFactory(description=text, verification_result=text)
    dead: Any = SagaFactory(
        event=event,
        subscription=subscription,
        status="InProgress",
        attempt_count=2,
        final_error_code=text[:100],
        **saga,
    )
    JobFactory(saga=dead, attempt_no=3, status="Failed", error_code=text[:100], worker_id=text, response_snippet=text)
    letter = legal_steps.dead_letter(dead)
    legal_steps.update(dead, status="DeadLettered", attempt_count=3)
    return letter


def process(text: str = "x", **values: Any) -> Process:
    now = clock.now()
    defaults = {"name": text, "kind": text[:30], "host": text, "pid": 1, "started_at": now, "heartbeat_at": now}
    return Process.objects.create(**defaults | values)


def one_of_each(text: str = "x") -> dict[str, int]:
    """The primary key of one row of each table, by the table's name in the console's URLs."""
    letter = dead_letter(text)
    return {
        "events_event": letter.event_id,
        "sagas_saga": letter.saga_id,
        "jobs_job": Job.objects.get(saga=letter.saga_id, attempt_no=3).pk,
        "deadletters_deadletter": letter.pk,
        "subscriptions_subscription": letter.subscription_id,
        "webhookhub_process": process(text).pk,
    }


def successor(letter: DeadLetter) -> Saga:
    return Saga.objects.get(
        event=letter.event_id, subscription=letter.subscription_id, generation=letter.saga.generation + 1
    )
