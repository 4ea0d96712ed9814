"""Requeueing selected dead letters in the console: permissions, confirmation, messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deadletters import admin, forms
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.support import rows
from webhookhub.terminal import Operator

from .helpers import dead_letter_before_its_delivery_ends

pytestmark = pytest.mark.django_db

NAME = "deadletters_deadletter"


def requeue_page() -> str:
    return reverse("admin:deadletters_deadletter_requeue")


def select(client: Client, *letters: DeadLetter, **more: Any) -> Any:
    ids = [letter.pk for letter in letters]
    return client.post(rows.listing(NAME), {"action": "requeue", "_selected_action": ids, "index": "0", **more})


def confirm(client: Client, *letters: DeadLetter, reason: str = "the endpoint is fixed") -> Any:
    ids = ",".join(str(letter.pk) for letter in letters)
    return client.post(requeue_page(), {"ids": ids, "reason": reason}, follow=True)


def nothing_was_requeued() -> bool:
    return not Requeue.objects.exists() and not Saga.objects.filter(generation__gt=0).exists()


def test_the_action_needs_the_requeue_permission(viewer: Client, requeuer: Client, superuser: Client):
    letter = rows.dead_letter()

    for client, shown in ((viewer, False), (requeuer, True), (superuser, True)):
        assert ('<option value="requeue"' in client.get(rows.listing(NAME)).content.decode()) is shown
        assert (requeue_page() in client.get(rows.change(NAME, letter.pk)).content.decode()) is shown


def test_a_forged_request_without_the_permission_is_refused(viewer: Client):
    letter = rows.dead_letter()

    assert select(viewer, letter).status_code == 403
    assert confirm(viewer, letter).status_code == 403
    assert viewer.get(requeue_page(), {"ids": letter.pk}).status_code == 403
    assert nothing_was_requeued()


def test_the_requeue_permission_alone_shows_no_dead_letters(staff: Callable[..., Client]):
    letter = rows.dead_letter()
    anna = staff("anna", "requeue_deadletter")

    assert select(anna, letter).status_code == 403
    assert confirm(anna, letter).status_code == 403
    assert nothing_was_requeued()


def test_an_anonymous_user_is_sent_to_the_login(client: Client):
    letter = rows.dead_letter()

    response = client.post(requeue_page(), {"ids": letter.pk, "reason": "x"})

    assert response.status_code == 302
    assert response["Location"].startswith("/admin/login/")
    assert nothing_was_requeued()


def test_a_request_from_another_site_is_refused(requeuer: Client):
    letter = rows.dead_letter()
    foreign = Client(enforce_csrf_checks=True)
    foreign.cookies = requeuer.cookies

    assert foreign.post(requeue_page(), {"ids": letter.pk, "reason": "x"}).status_code == 403
    assert nothing_was_requeued()


def test_the_confirmation_shows_the_selection_and_writes_nothing(requeuer: Client):
    one, two, other = rows.dead_letter("one"), rows.dead_letter("two"), rows.dead_letter("other")

    page = select(requeuer, one, two).content.decode()

    assert "These 2 dead letters" in page
    for letter, shown in ((one, True), (two, True), (other, False)):
        assert (rows.change(NAME, letter.pk) in page) is shown
        assert (letter.subscription.callback_url in page) is shown
    assert f'value="{two.pk},{one.pk}"' in page
    assert nothing_was_requeued()


def test_the_selection_is_kept_when_the_list_changes(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    for name in ("MAX_LISTED", "WINDOW"):
        monkeypatch.setattr(admin, name, 1)
    selected = rows.dead_letter("selected")
    rows.dead_letter("later")
    address = rows.listing(NAME, "?requeued=no")
    selection = {"action": "requeue", "_selected_action": [selected.pk], "index": "0"}

    page = requeuer.post(address, selection).content.decode()

    assert rows.change(NAME, selected.pk) in page


def test_the_confirmation_escapes_content(requeuer: Client):
    letter = rows.dead_letter(rows.HOSTILE[:90])

    assert "<script>alert" not in select(requeuer, letter).content.decode()
    reason = "".join(character for character in rows.HOSTILE if character.isprintable())
    page = confirm(requeuer, letter, reason=reason).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert Requeue.objects.get().reason == reason


def test_a_reason_is_required(requeuer: Client):
    letter = rows.dead_letter()

    response = confirm(requeuer, letter, reason="   \n")

    assert response.status_code == 200
    assert "Nothing was requeued." in response.content.decode()
    assert rows.change(NAME, letter.pk) in response.content.decode()
    assert nothing_was_requeued()


def test_a_confirmed_requeue_creates_a_new_delivery(requeuer: Client):
    letter = rows.dead_letter()

    page = confirm(requeuer, letter).content.decode()

    saga = rows.successor(letter)
    assert (saga.status, saga.attempt_count) == ("Pending", 0)
    assert f"Requeued: dead letter {letter.pk} as <a" in page
    assert rows.change("sagas_saga", saga.pk) in page
    record = Requeue.objects.get()
    assert (record.requested_by, record.reason) == ("requeuer", "the endpoint is fixed")


def test_a_requeue_returns_to_the_filtered_list(requeuer: Client):
    one, two = rows.dead_letter("one"), rows.dead_letter("two")
    filtered = rows.listing(NAME, "?event_type=order.created&q=one")
    selection = {"action": "requeue", "_selected_action": [one.pk], "index": "0"}

    page = requeuer.post(filtered, selection).content.decode()

    assert f'href="{filtered}"'.replace("&", "&amp;") in page
    [action] = re.findall(r'<form method="post" action="([^"]*)"', page)
    ids = f"{one.pk},{two.pk}"
    response = requeuer.post(action.replace("&amp;", "&"), {"ids": ids, "reason": "r"})
    assert (response.status_code, response["Location"]) == (302, filtered)


def test_a_second_requeue_names_the_first_and_its_delivery(requeuer: Client, superuser: Client):
    letter, fresh = rows.dead_letter("first"), rows.dead_letter("fresh")
    confirm(requeuer, letter)
    saga = rows.successor(letter)

    confirmation = select(superuser, letter, fresh).content.decode()
    assert (
        f'Already requeued by requeuer as <a href="{rows.change("sagas_saga", saga.pk)}">delivery {saga.pk}</a>'
        in confirmation
    )
    assert "This dead letter will be requeued" in confirmation
    assert "1 selected dead letter was already requeued" in confirmation
    page = confirm(superuser, letter, fresh, reason="again").content.decode()

    assert f"Already requeued: dead letter {letter.pk} by requeuer as <a" in page
    assert f">delivery {saga.pk}</a>" in page
    assert f"Requeued: dead letter {fresh.pk} as <a" in page
    assert Saga.objects.filter(generation=1).count() == 2
    assert Saga.objects.filter(generation__gt=1).count() == 0


def test_if_all_were_requeued_before_there_is_no_form(requeuer: Client):
    letters = [rows.dead_letter("one"), rows.dead_letter("two")]
    confirm(requeuer, *letters)

    page = select(requeuer, *letters).content.decode()

    assert "2 selected dead letters were already requeued" in page
    assert "There is nothing to requeue." in page
    assert 'name="reason"' not in page


def test_a_dead_letter_shows_its_requeue(requeuer: Client, viewer: Client):
    letter = rows.dead_letter()
    address = rows.change(NAME, letter.pk)
    assert "Reason:" not in viewer.get(address).content.decode()

    confirm(requeuer, letter, reason="fixed & tried")

    page = viewer.get(address).content.decode()
    assert "by requeuer at <time" in page
    assert f"{Requeue.objects.get().requested_at:%Y-%m-%d %H:%M:%S} UTC</time>" in page
    assert "Reason: fixed &amp; tried" in page
    assert rows.change("sagas_saga", rows.successor(letter).pk) in page
    assert "requeuer" in viewer.get(rows.listing(NAME)).content.decode()


def test_selecting_too_many_is_refused(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_SELECTED", 2)
    monkeypatch.setattr(forms, "MAX_SELECTED", 2)
    letters = [rows.dead_letter(f"letter-{number}") for number in range(3)]

    response = select(requeuer, letters[0], select_across="1")
    assert response.status_code == 302
    assert "selected dead letters at once" in requeuer.get(response["Location"]).content.decode()
    assert "selected dead letters at once" in confirm(requeuer, *letters).content.decode()
    assert nothing_was_requeued()


def test_a_whole_list_can_be_selected_only_if_it_can_be_requeued(
    requeuer: Client, member: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admin.DeadLetterAdmin, "list_per_page", 2)
    support, offer = member("support"), "Select all 3 dead letters"
    for number in range(3):
        rows.dead_letter(f"letter-{number}")
    assert offer in requeuer.get(rows.listing(NAME)).content.decode()
    assert offer not in support.get(rows.listing(NAME)).content.decode()

    monkeypatch.setattr(admin, "MAX_SELECTED", 2)

    page = requeuer.get(rows.listing(NAME), {"event_type": "order.created"}).content.decode()
    assert offer not in page
    instead = page.partition('class="action-counter"')[2].partition("</form>")[0]
    assert f'{reverse("admin:deadletters_deadletter_requeue_matching")}?event_type=order.created"' in instead
    page = support.get(rows.listing(NAME)).content.decode()
    assert offer not in page
    assert "Requeue all" not in page
    assert 'class="action-counter"' in page  # Django's script counts there


def test_a_whole_list_can_be_requeued_up_to_the_limit(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    for module in (admin, forms):
        monkeypatch.setattr(module, "MAX_SELECTED", 22)
    letters = [rows.dead_letter(f"letter-{number}") for number in range(22)]
    confirmation = select(requeuer, letters[0], select_across="1").content.decode()
    assert "These 22 dead letters" in confirmation
    assert confirmation.count('name="ids"') == 1  # Django refuses a form of more than a thousand fields

    page = confirm(requeuer, *letters).content.decode()

    assert "and 2 more" in page
    assert Requeue.objects.count() == Saga.objects.filter(generation=1).count() == 22


@pytest.mark.parametrize("ids", ["", "x", "1,", "1;2", "-1", "9" * 30, "1.5", "１", "\0"])
def test_only_a_list_of_ids_is_a_selection(ids: str):
    assert "ids" in forms.RequeueForm({"ids": ids, "reason": "x"}).errors


@pytest.mark.parametrize("ids", ["", "1;2"])
def test_an_invalid_selection_is_refused(requeuer: Client, ids: str):
    rows.dead_letter()

    response = requeuer.post(requeue_page(), {"ids": ids, "reason": "x"})

    assert response.status_code == 200
    assert "Nothing was requeued." in response.content.decode()
    assert requeuer.get(requeue_page(), {"ids": ids}).status_code == 200
    assert nothing_was_requeued()


def test_an_unknown_dead_letter_is_named_and_nothing_is_requeued(requeuer: Client):
    letter = rows.dead_letter()

    response = requeuer.post(requeue_page(), {"ids": f"{letter.pk},987654321", "reason": "x"})

    assert "There is no dead letter 987654321" in response.content.decode()
    assert nothing_was_requeued()


def test_a_dead_letter_whose_delivery_has_not_ended_is_refused(requeuer: Client):
    letter = dead_letter_before_its_delivery_ends()

    page = confirm(requeuer, letter).content.decode()

    assert "Nothing was requeued." in page
    assert f"Delivery {letter.saga_id} of dead letter {letter.pk} has not ended yet; wait a minute" in page
    assert nothing_was_requeued()


def test_out_of_several_those_whose_deliveries_have_not_ended_are_skipped(requeuer: Client):
    ended, unended = rows.dead_letter(), dead_letter_before_its_delivery_ends()

    data = {"ids": f"{ended.pk},{unended.pk}", "reason": "fixed"}
    page = requeuer.post(requeue_page(), data, follow=True).content.decode()

    assert "1 dead letter is skipped: its delivery has not ended yet." in page
    assert list(Requeue.objects.values_list("dead_letter_id", flat=True)) == [ended.pk]


@pytest.mark.parametrize("value", ["x", "\0", "9" * 30])
def test_a_forged_selection_in_the_list_is_a_bad_request(requeuer: Client, value: str):
    response = requeuer.post(rows.listing(NAME), {"action": "requeue", "_selected_action": value, "index": "0"})

    assert response.status_code == 400


def test_an_empty_selection_is_refused(requeuer: Client):
    rows.dead_letter()

    response = requeuer.post(rows.listing(NAME), {"action": "requeue", "index": "0"}, follow=True)

    assert "Items must be selected" in response.content.decode()


def test_the_confirmation_warns_of_an_inactive_subscription(requeuer: Client):
    letter = rows.dead_letter()
    subscription = letter.subscription
    warning = "The subscription is switched off: its deliveries wait until it is switched on again."
    page = select(requeuer, letter).content.decode()
    assert warning not in page
    assert 'name="allow_waiting"' not in page

    subscription.active = False
    subscription.save(update_fields=["active"])

    page = select(requeuer, letter).content.decode()
    assert warning in page
    assert 'name="allow_waiting"' in page


def test_a_requeue_to_an_inactive_subscription_needs_confirmation(requeuer: Client):
    letter = rows.dead_letter()
    Subscription.objects.update(active=False)
    data = {"ids": letter.pk, "reason": "r"}

    page = requeuer.post(requeue_page(), data).content.decode()

    assert "Nothing was requeued." in page
    assert f"Subscription {letter.subscription_id} is paused: the new delivery would wait until it is resumed." in page
    assert nothing_was_requeued()
    requeuer.post(requeue_page(), {**data, "allow_waiting": "on"})
    assert rows.successor(letter).status == "Pending"


def test_a_requeued_dead_letter_links_to_the_delivery_instead_of_a_button(requeuer: Client):
    letter = rows.dead_letter()
    button = f'?ids={letter.pk}">Requeue</a>'
    assert button in requeuer.get(rows.change(NAME, letter.pk)).content.decode()

    requeue([letter.pk], by=Operator(), reason="r")

    page = requeuer.get(rows.change(NAME, letter.pk)).content.decode()
    assert button not in page
    assert "Requeued as <a" in page
    assert rows.change("sagas_saga", rows.successor(letter).pk) in page
