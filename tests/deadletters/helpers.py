from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from sagas.models import Saga
from tests.factories import SagaFactory
from tests.support import legal_steps, rows
from webhookhub.db import clock
from webhookhub.terminal import Operator

NAME = "deadletters_deadletter"


def listed(client: Client, **query: Any) -> list[int]:
    """The ids on the first page of the list."""
    response = client.get(rows.listing(NAME), query)
    assert response.status_code == 200
    return [letter.pk for letter in response.context["cl"].result_list]


def listed_pages(client: Client, **query: Any) -> list[list[int]]:
    """The ids on each page of the list, from the newest to the oldest."""
    pages = []
    for _ in range(20):
        response = client.get(rows.listing(NAME), query)
        letters = response.context["cl"].result_list
        pages.append([letter.pk for letter in sorted(letters, key=lambda letter: letter.pk, reverse=True)])
        link = re.search(r'href="\?([^"]*)">Search older ones', response.content.decode())
        if link is None:
            return pages
        query = dict(parse_qsl(unescape(link[1])))
    raise AssertionError("the list has no end")


def bulk_url(query: dict[str, Any]) -> str:
    return reverse("admin:deadletters_deadletter_requeue_matching") + f"?{urlencode(query)}"


def shown_in(page: str) -> list[int]:
    """The sample of dead letters on a confirmation page."""
    return [int(pk) for pk in re.findall(r'<a href="/admin/deadletters/deadletter/(\d+)/change/">', page)]


def run_in(page: str) -> str | None:
    """The signed state of a requeue."""
    match = re.search(r'name="run" value="([^"]+)"', page)
    return match[1] if match else None


def confirm(client: Client, query: dict[str, Any], reason: str) -> str:
    """Open the confirmation page and submit it."""
    run = run_in(client.get(bulk_url(query)).content.decode())
    return client.post(bulk_url(query), {"run": run, "reason": reason}).content.decode()


def dead_letter_before_its_delivery_ends(failed_at: datetime | None = None) -> DeadLetter:
    saga: Any = SagaFactory(status="InProgress", attempt_count=2)
    return legal_steps.dead_letter(saga, failed_at, "timeout")


def dead_letters(count: int, code: str = "timeout") -> list[DeadLetter]:
    """Dead letters of one subscription, one second apart, the oldest first."""
    first = rows.dead_letter(code)
    now, letters = clock.now(), [first]
    for second in range(1, count):
        saga: Any = SagaFactory(subscription=first.subscription, status="DeadLettered", attempt_count=3)
        letters.append(legal_steps.dead_letter(saga, now + timedelta(seconds=second), code))
    return letters


def requeued_and_dead_again(letter: DeadLetter) -> DeadLetter:
    requeue([letter.pk], by=Operator(), reason="r")
    saga = rows.successor(letter)
    Saga.objects.filter(pk=saga.pk).update(status="InProgress")
    Saga.objects.filter(pk=saga.pk).update(status="DeadLettered", attempt_count=3, final_error_code="timeout")
    return legal_steps.dead_letter(saga, code="timeout")
