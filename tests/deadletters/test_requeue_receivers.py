"""Whoever requeues many is told to whom they go, all of them, and of those that would wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from deadletters import recipients
from deadletters.models import DeadLetter
from subscriptions.models import Subscription
from tests.deadletters.test_requeue_matching import page_of
from tests.support import rows

pytestmark = pytest.mark.django_db

Ask = Callable[[Client, list[DeadLetter]], str]


def about_all(client: Client, letters: list[DeadLetter]) -> str:
    return client.get(page_of({})).content.decode()


def about_chosen(client: Client, letters: list[DeadLetter]) -> str:
    address = reverse("admin:deadletters_deadletter_requeue")
    return client.get(address, {"ids": ",".join(str(letter.pk) for letter in letters)}).content.decode()


def switch(letter: DeadLetter, **flags: bool) -> None:
    Subscription.objects.filter(pk=letter.subscription_id).update(**flags)


def test_receivers_that_are_not_named_are_counted(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recipients, "MOST_NAMED", 2)
    letters = [rows.dead_letter(str(number)) for number in range(2)]
    assert 'id="others"' not in about_all(requeuer, letters)
    letters += [rows.dead_letter(str(number)) for number in range(2, 5)]

    page = about_all(requeuer, letters)

    named = page.partition("To whom</h2>")[2].partition("</section>")[0]
    assert sum(str(letter.subscription) in named for letter in letters) == 2
    assert '<tr id="others"><td>and 3 more</td><td class="hub-number">3</td>' in named


@pytest.mark.parametrize("ask", [about_all, about_chosen])
def test_those_that_would_wait_are_counted_and_their_subscriptions_say_why(requeuer: Client, ask: Ask):
    letters = [rows.dead_letter(str(number)) for number in range(4)]
    assert 'id="waiting"' not in ask(requeuer, letters)
    switch(letters[0], active=False)

    page = ask(requeuer, letters)
    assert "1 of them is for a subscription that is switched off or not verified" in page
    assert "The subscription is switched off: its deliveries wait until it is switched on again." in page

    switch(letters[1], verified=False)
    page = ask(requeuer, letters)
    assert "2 of them are for subscriptions that are switched off or not verified" in page
    assert "The subscription is not verified: its deliveries wait until it is." in page


def test_those_that_would_wait_are_counted_though_their_subscription_is_not_named(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recipients, "MOST_NAMED", 1)
    letters = [rows.dead_letter(str(number)) for number in range(3)]
    for letter in letters:
        switch(letter, active=False)

    assert "3 of them are for subscriptions that are switched off" in about_all(requeuer, letters)
