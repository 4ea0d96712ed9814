"""Choosing dead letters by a filter, and requeueing all that match, portion by portion."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from django.utils.http import urlencode

from deadletters import bulk_views, filter_form, listing, outstanding, run
from deadletters.filter_form import FilterForm
from deadletters.filters import Choice
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from deadletters.run import Run
from sagas.models import Saga
from tests.factories import SagaFactory
from tests.support import rows
from webhookhub import signed_state
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db

NAME = "deadletters_deadletter"


def listed(client: Client, **given: Any) -> list[int]:
    answer = client.get(rows.listing(NAME), given)
    assert answer.status_code == 200
    return [letter.pk for letter in answer.context["cl"].result_list]


def page_of(given: dict[str, Any]) -> str:
    return reverse("admin:deadletters_deadletter_requeue_matching") + f"?{urlencode(given)}"


def listed_in(page: str) -> list[int]:
    """The dead letters that the page shows as the first of them."""
    return [int(number) for number in re.findall(r'<td><a href="/admin/deadletters/deadletter/(\d+)/change/">', page)]


def sealed_in(page: str) -> str | None:
    found = re.search(r'name="run" value="([^"]+)"', page)
    return found[1] if found else None


def confirm(client: Client, given: dict[str, Any], reason: str) -> str:
    """Ask, and say yes to what is shown."""
    asked = sealed_in(client.get(page_of(given)).content.decode())
    return client.post(page_of(given), {"run": asked, "reason": reason}).content.decode()


def many(count: int, code: str = "timeout") -> list[DeadLetter]:
    """Dead letters of one subscription, a second apart, the oldest first."""
    first = rows.dead_letter(code)
    now, letters = clock.now(), [first]
    for number in range(1, count):
        dead = SagaFactory.create(
            subscription=first.subscription, status="DeadLettered", attempt_count=3, final_error_code=code
        )
        letters.append(
            DeadLetter.objects.create(
                saga=dead,
                event=dead.event,
                subscription=first.subscription,
                final_error_code=code,
                failed_at=now + timedelta(seconds=number),
                payload_snapshot="{}",
            )
        )
    return letters


def together(count: int, failed_at: Any, code: str = "timeout") -> list[DeadLetter]:
    """Dead letters that failed at the same moment."""
    sagas = [SagaFactory.create(status="DeadLettered", attempt_count=3, final_error_code=code) for _ in range(count)]
    return [
        DeadLetter.objects.create(
            saga=dead,
            event=dead.event,
            subscription=dead.subscription,
            final_error_code=code,
            failed_at=failed_at,
            payload_snapshot="{}",
        )
        for dead in sagas
    ]


def test_each_filter_narrows_the_list_and_all_of_them_together(requeuer: Client):
    one, two = rows.dead_letter("http_500"), rows.dead_letter("timeout")
    requeue([one.pk], by=Operator(), reason="r")
    minute = timedelta(minutes=1)

    def moment(value: Any) -> str:
        return f"{value:%Y-%m-%d %H:%M:%S}"

    assert listed(requeuer) == [two.pk, one.pk]
    assert listed(requeuer, error_code="timeout") == [two.pk]
    assert listed(requeuer, subscription=one.subscription_id) == [one.pk]
    assert listed(requeuer, event_type="order.created") == [two.pk, one.pk]
    assert listed(requeuer, event_type="order.other") == []
    assert listed(requeuer, requeued="no") == [two.pk]
    assert listed(requeuer, requeued="yes") == [one.pk]
    assert listed(requeuer, since=moment(one.failed_at - minute)) == [two.pk, one.pk]
    assert listed(requeuer, since=moment(two.failed_at + minute)) == []
    assert listed(requeuer, until=moment(one.failed_at - minute)) == []
    everything = {"error_code": "timeout", "subscription": two.subscription_id, "event_type": "order.created"}
    assert listed(requeuer, **everything, requeued="no", until=moment(two.failed_at + minute)) == [two.pk]


@pytest.mark.parametrize("typed", ["http_404", "Http_404", "404", " 404 "])
def test_an_error_code_is_read_however_it_is_typed(typed: str):
    form = FilterForm({"error_code": typed})

    assert form.is_valid()
    assert form.choice().error_code == "http_404"


def test_the_list_and_the_requeue_find_an_error_code_by_its_status(requeuer: Client):
    missing, late = rows.dead_letter("http_404"), rows.dead_letter("timeout")

    assert listed(requeuer, error_code="404") == [missing.pk]
    assert listed_in(requeuer.get(page_of({"error_code": "404"})).content.decode()) == [missing.pk]
    assert listed(requeuer, error_code="TimeOut") == [late.pk]
    assert listed(requeuer, error_code="40") == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscription": "x"}, "whole number"),
        ({"subscription": "0"}, "whole number, such as 12"),
        ({"subscription": "9" * 20}, "There is no subscription with this number."),
        ({"event": "x"}, "An event's number is a whole number, such as 12"),
        ({"saga": "9" * 20}, "There is no delivery with this number."),
        ({"event_type": "a b"}, "letters, digits, dots"),
        ({"since": "yesterday"}, "Write the time as"),
        ({"since": "2026-02-02 00:00", "until": "2026-01-01 00:00"}, "lies before"),
        ({"requeued": "perhaps"}, "not one of the available choices"),
        ({"error_code": "x" * 101}, "at most 100 characters"),
        ({"error_code": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_what_a_filter_cannot_read_is_explained(given: dict[str, str], said: str):
    [[error]] = FilterForm(given).errors.values()

    assert said in error


@pytest.mark.parametrize("given", [{"subscription": "x"}, {"event": "x"}, {"error_code": "a\0b"}])
def test_a_filter_that_cannot_be_read_chooses_nothing(requeuer: Client, given: dict[str, str]):
    rows.dead_letter()

    answer = requeuer.get(rows.listing(NAME), given)

    assert "The filter cannot be read" in answer.content.decode()
    [[error]] = FilterForm(given).errors.values()
    assert escape(error) in answer.content.decode()
    assert list(answer.context["cl"].result_list) == []
    asked = requeuer.get(page_of(given)).content.decode()
    assert "Nothing has been requeued" in asked
    assert sealed_in(asked) is None


def test_the_list_leads_further_back_when_not_everything_was_looked_at(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(filter_form, "MOST_EXAMINED", 2)
    letters = many(5)
    seen = set()
    query: dict[str, Any] = {"requeued": "no"}
    for _ in range(5):
        answer = requeuer.get(rows.listing(NAME), query)
        seen |= {letter.pk for letter in answer.context["cl"].result_list}
        older = re.search(r'href="\?([^"]*until=[^"]*)"', answer.content.decode())
        if older is None:
            break
        query = dict(parse_qsl(older[1].replace("&amp;", "&")))

    assert seen == {letter.pk for letter in letters}


@pytest.mark.parametrize("query", [{"error_code": "timeout"}, {"requeued": "no"}])
def test_however_many_failed_at_the_same_moment_the_list_leads_past_them(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any]
):
    for module in (filter_form, listing):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    monkeypatch.setattr(filter_form, "MOST_EXAMINED", 3)
    letters = many(1)
    letters += together(7, clock.now())
    seen: list[int] = []
    for _ in range(8):
        answer = requeuer.get(rows.listing(NAME), query)
        seen += sorted((letter.pk for letter in answer.context["cl"].result_list), reverse=True)
        older = re.search(r'href="\?([^"]*until=[^"]*)">Look further back', answer.content.decode())
        if older is None:
            break
        query = dict(parse_qsl(older[1].replace("&amp;", "&")))

    assert seen == [letter.pk for letter in reversed(letters)]


def test_the_page_says_how_many_to_whom_and_shows_the_first_of_them_and_writes_nothing(requeuer: Client):
    letters = many(12)
    other = rows.dead_letter("http_500")

    page = requeuer.get(page_of({"error_code": "timeout"})).content.decode()

    assert "<strong>12</strong> dead letters match" in page
    assert str(letters[0].subscription) in page
    assert str(other.subscription) not in page
    assert listed_in(page) == [letter.pk for letter in letters[: bulk_views.SAMPLE]]
    assert not Requeue.objects.exists()
    assert not Entry.objects.filter(object_type="deadletter").exists()


def test_all_that_match_are_requeued_portion_by_portion_with_a_report(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "PORTION", 5)
    letters = many(12)
    other = rows.dead_letter("http_500")

    page = confirm(requeuer, {"error_code": "timeout"}, "mended")
    counts = [Requeue.objects.count()]
    while text := sealed_in(page):
        assert 'max="12"' in page
        page = requeuer.post(page_of({}), {"run": text}).content.decode()
        counts.append(Requeue.objects.count())

    assert counts == [5, 10, 12]
    assert "<strong>12</strong> dead letters are delivered anew" in page
    assert "none that matched is left" in page
    assert 'id="again"' not in page
    assert {record.dead_letter_id for record in Requeue.objects.all()} == {letter.pk for letter in letters}
    assert set(Requeue.objects.values_list("requested_by", "reason")) == {("requeuer", "mended")}
    assert not Saga.objects.filter(event=other.event_id, generation=1).exists()
    again = requeuer.get(page_of({"error_code": "timeout"})).content.decode()
    assert "they have been requeued already" in again


def test_a_portion_that_is_sent_again_does_nothing_and_says_so(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    """A double click, a reload, or the way back and once more."""
    monkeypatch.setattr(run, "PORTION", 2)
    letters = many(9)
    asked = sealed_in(requeuer.get(page_of({"limit": 4})).content.decode())
    first = requeuer.post(page_of({}), {"run": asked, "reason": "r"}).content.decode()

    again = requeuer.post(page_of({}), {"run": asked, "reason": "r"}).content.decode()

    assert "nothing was requeued a second time" in again
    assert "nothing was requeued a second time" not in first
    assert "<strong>2</strong> dead letters are delivered anew" in again
    second = sealed_in(first)
    for page in (first, again, first):
        done = requeuer.post(page_of({}), {"run": sealed_in(page)}).content.decode()
        assert "<strong>4</strong> dead letters are delivered anew" in done
        assert 'id="finished"' in done
    requeuer.post(page_of({}), {"run": second})
    assert set(Requeue.objects.values_list("dead_letter_id", flat=True)) == {letter.pk for letter in letters[:4]}
    assert Saga.objects.filter(generation=1).count() == 4


def test_the_filter_stays_in_the_address_through_all_portions_and_leads_back_to_the_same_list(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "PORTION", 2)
    many(7)
    given = {"error_code": "timeout", "limit": 5}
    back = f'href="{rows.listing(NAME)}?error_code=timeout"'
    asked = requeuer.get(page_of(given)).content.decode()
    assert asked.count(back) == 2

    page = confirm(requeuer, given, "mended")
    while text := sealed_in(page):
        assert page.count(back) == 2
        [form] = re.findall(r"<form[^>]*data-go-on[^>]*>", page)
        assert "action" not in form  # sent to the address that it has
        page = requeuer.post(page_of(given), {"run": text}).content.decode()

    assert 'id="finished"' in page
    assert page.count(back) == 1
    [again] = re.findall(r'href="([^"]*)">Requeue again', page)
    assert again.replace("&amp;", "&") == page_of(given)


def test_whoever_looked_further_on_is_not_told_that_none_is_left(requeuer: Client):
    letters = many(4)
    further = {"limit": 2, "behind": letters[1].pk}

    done = confirm(requeuer, further, "r")
    after = requeuer.get(page_of({**further, "behind": letters[3].pk})).content.decode()

    assert set(Requeue.objects.values_list("dead_letter_id", flat=True)) == {letter.pk for letter in letters[2:]}
    assert "There may be more that match" in done
    assert "From here on, none that matches" in after


def test_a_login_in_between_leads_back_to_the_same_question(requeuer: Client):
    many(2)
    given = {"error_code": "timeout", "limit": 5}
    asked = sealed_in(requeuer.get(page_of(given)).content.decode())
    requeuer.logout()

    answer = requeuer.post(page_of(given), {"run": asked, "reason": "r"})

    assert answer.status_code == 302
    assert dict(parse_qsl(answer["Location"].partition("?")[2]))["next"] == page_of(given)
    assert not Requeue.objects.exists()


def test_what_was_shown_is_what_is_done_whatever_has_died_or_was_requeued_since(requeuer: Client):
    letters = many(4)
    asked = sealed_in(requeuer.get(page_of({"limit": 3})).content.decode())
    rows.dead_letter("later")
    requeue([letters[1].pk], by=Operator(), reason="mine")

    page = requeuer.post(page_of({}), {"run": asked, "reason": "r"}).content.decode()

    assert "<strong>2</strong> dead letters are delivered anew" in page
    assert "1 had been requeued in the meantime" in page
    assert {each.pk for each in letters[:3]} == set(Requeue.objects.values_list("dead_letter_id", flat=True))
    assert Requeue.objects.filter(reason="r").count() == 2


def test_no_more_than_asked_for_are_shown_and_requeued_the_longest_dead_first(requeuer: Client):
    letters = many(5)
    asked = requeuer.get(page_of({"limit": 2})).content.decode()
    assert "<strong>2</strong> dead letters match" in asked
    assert "There may be more" in asked
    assert listed_in(asked) == [letters[0].pk, letters[1].pk]

    page = confirm(requeuer, {"limit": 2}, "try two")

    assert [record.dead_letter_id for record in Requeue.objects.order_by("id")] == [each.pk for each in letters[:2]]
    assert "There may be more that match" in page


def test_of_two_who_confirm_the_same_the_second_is_told_by_whom_it_was_done(requeuer: Client, superuser: Client):
    letters = many(3)
    asked = {client: sealed_in(client.get(page_of({})).content.decode()) for client in (requeuer, superuser)}
    first, second = (
        client.post(page_of({}), {"run": run, "reason": "mended"}).content.decode() for client, run in asked.items()
    )

    assert "<strong>3</strong> dead letters are delivered anew." in first
    assert "Requeued before by" not in first
    assert "<strong>0</strong> dead letters are delivered anew." in second
    assert "Requeued before by requeuer." in second
    assert "The latest of them" not in second
    assert Requeue.objects.count() == len(letters)
    told = Entry.objects.filter(object_type="deadletter")
    assert list(told.values_list("actor", flat=True)) == ["requeuer"]


def test_those_requeued_already_are_neither_counted_nor_shown(requeuer: Client):
    letters = many(5)
    requeue([letters[0].pk, letters[2].pk], by=Operator(), reason="r")

    page = requeuer.get(page_of({})).content.decode()

    assert "<strong>3</strong> dead letters match" in page
    assert listed_in(page) == [letters[1].pk, letters[3].pk, letters[4].pk]


def test_one_that_was_asked_for_and_got_no_delivery_is_still_to_be_requeued(requeuer: Client):
    letter = rows.dead_letter()
    Requeue.objects.create(dead_letter=letter, requested_by="anna", reason="r", request_token="t")

    confirm(requeuer, {}, "complete it")

    assert rows.successor(letter).status == "Pending"


def test_a_look_that_does_not_reach_the_end_leads_further_on(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outstanding, "EXAMINED", 2)
    monkeypatch.setattr(outstanding, "LOOKS", 1)
    letters = many(5)
    requeue([letter.pk for letter in letters[:3]], by=Operator(), reason="r")
    query: Any = page_of({})
    seen: list[list[int]] = []
    while query:
        page = requeuer.get(query).content.decode()
        seen.append(listed_in(page))
        further = re.search(r'href="(\?[^"]*behind=[^"]*)"', page)
        query = page_of({}).partition("?")[0] + further[1].replace("&amp;", "&") if further else None

    assert seen == [[], [letters[3].pk], [letters[4].pk]]


@pytest.mark.parametrize("chosen", [{}, {"event_type": "order.created"}])
def test_as_many_are_found_as_were_asked_for_however_few_one_look_takes(
    db: None, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
):
    monkeypatch.setattr(outstanding, "TAKEN", 2)
    letters = many(8)

    found = outstanding.outstanding(Choice(**chosen), 7)

    assert [letter.pk for letter in found.letters] == [letter.pk for letter in letters[:7]]
    assert found.behind is not None


def test_the_page_says_when_it_found_fewer_than_were_asked_for(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    many(4)
    said = "These are fewer than the 3 you asked for"

    assert said not in requeuer.get(page_of({"limit": 3})).content.decode()
    monkeypatch.setattr(outstanding, "EXAMINED", 1)
    page = requeuer.get(page_of({"limit": 3})).content.decode()
    assert len(listed_in(page)) == 2
    assert said in page


def test_choosing_another_number_keeps_the_place_that_was_come_to(requeuer: Client):
    letters = many(5)

    page = requeuer.get(page_of({"error_code": "timeout", "behind": letters[2].pk, "limit": 1})).content.decode()

    form = page.partition('<form method="get" class="hub-card hub-filters"')[2].partition("</form>")[0]
    sent = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert sent == {"error_code": "timeout", "behind": str(letters[2].pk)}
    assert listed_in(requeuer.get(page_of({**sent, "limit": 3})).content.decode()) == [each.pk for each in letters[3:]]
    assert 'name="behind"' not in requeuer.get(page_of({})).content.decode()


def test_however_the_table_is_looked_at_each_that_is_left_is_found_once_the_longest_dead_first(
    db: None, monkeypatch: pytest.MonkeyPatch
):
    letters = many(11)
    requeue([letter.pk for letter in (letters[0], letters[1], letters[5])], by=Operator(), reason="r")
    left = [letter.pk for letter in letters if letter.pk not in {letters[0].pk, letters[1].pk, letters[5].pk}]

    choices = [Choice(), Choice(error_code="timeout"), Choice(event_type="order.created")]
    for choice, (examined, taken) in product(choices, [(3, 2), (4, 10), (10, 3), (1, 1)]):
        monkeypatch.setattr(outstanding, "EXAMINED", examined)
        monkeypatch.setattr(outstanding, "TAKEN", taken)
        found: list[int] = []
        behind = None
        while True:
            look = outstanding.outstanding(choice, 3, behind)
            assert len(look.letters) <= 3
            found += [letter.pk for letter in look.letters]
            behind = look.behind
            if behind is None:
                break
        assert found == left, (choice, examined, taken)


def test_a_whole_window_of_the_table_is_requeued(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    """A thousand rows at once are more than some statements take."""
    monkeypatch.setattr(run, "PORTION", 1100)
    first = rows.dead_letter("timeout")
    event, saga, numbers = first.event, first.saga, range(10_000, 11_050)
    type(event).objects.bulk_create(
        type(event)(id=number, event_type="order.created", source="tests", payload="{}") for number in numbers
    )
    given = {"subscription": first.subscription, "max_retry_limit": 1, "base_delay": saga.base_delay}
    Saga.objects.bulk_create(
        Saga(id=number, event_id=number, status="DeadLettered", attempt_count=1, **given) for number in numbers
    )
    DeadLetter.objects.bulk_create(
        DeadLetter(
            saga_id=number,
            event_id=number,
            subscription=first.subscription,
            final_error_code="timeout",
            failed_at=first.failed_at,
            payload_snapshot="{}",
        )
        for number in numbers
    )

    asked = requeuer.get(page_of({"requeued": "no", "limit": 5000})).content.decode()
    assert "<strong>1051</strong>" in asked
    assert len(sealed_in(asked) or "") < 3000
    page = requeuer.post(page_of({}), {"run": sealed_in(asked), "reason": "r"}).content.decode()

    assert "<strong>1051</strong> dead letters are delivered anew" in page
    assert Saga.objects.filter(generation=1).count() == 1051


@pytest.mark.parametrize("limit", ["0", "5001", ""])
def test_how_many_is_a_number_within_bounds(requeuer: Client, limit: str):
    many(2)

    page = requeuer.get(page_of({"limit": limit})).content.decode()

    assert "Nothing has been requeued" in page
    assert sealed_in(page) is None


@pytest.mark.parametrize(("reason", "said"), [(" ", "Give the reason"), ("a\u202eb", "U+202E")])
def test_a_reason_is_required_and_what_is_asked_is_asked_again(requeuer: Client, reason: str, said: str):
    many(2)

    page = confirm(requeuer, {"limit": 2}, reason)

    assert "Nothing has been requeued" in page
    assert said in page
    assert "<strong>2</strong> dead letters match" in page
    assert not Requeue.objects.exists()
    requeuer.post(page_of({"limit": 2}), {"run": sealed_in(page), "reason": "r"})
    assert Requeue.objects.count() == 2


@pytest.mark.parametrize(("group", "may"), [("support", False), ("auditors", False), ("operations", True)])
def test_only_those_who_may_requeue_many_see_it_and_can_do_it(member: Callable[[str], Client], group: str, may: bool):
    many(3)
    client = member(group)
    asked = Run.of([letter.pk for letter in DeadLetter.objects.all()], Choice(), 3, more=False)
    own = asked.sealed(User.objects.get(username=group).pk)

    assert ("Requeue all" in client.get(rows.listing(NAME)).content.decode()) is may
    assert client.get(page_of({})).status_code == (200 if may else 403)
    assert client.post(page_of({}), {"run": own, "reason": "r"}).status_code == (200 if may else 403)
    assert Requeue.objects.count() == (3 if may else 0)


def test_nobody_goes_on_with_anothers_run_or_a_forged_one(
    requeuer: Client, superuser: Client, viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "PORTION", 1)
    many(3)
    text = sealed_in(confirm(requeuer, {}, "r"))
    assert text

    assert superuser.post(page_of({}), {"run": text}).status_code == 403
    assert viewer.post(page_of({}), {"run": text}).status_code == 403
    assert requeuer.post(page_of({}), {"run": text[:-2]}).status_code == 400
    assert requeuer.post(page_of({}), {"reason": "r"}).status_code == 400
    assert Requeue.objects.count() == 1


def test_a_page_that_has_lain_open_for_too_long_is_begun_again_with_the_same_filter(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    many(2)
    rows.dead_letter("other")
    given = {"error_code": "timeout", "limit": 5}
    asked = sealed_in(requeuer.get(page_of(given)).content.decode())
    monkeypatch.setattr(signed_state, "MAX_PAGE_AGE", timedelta(seconds=-1))

    answer = requeuer.post(page_of(given), {"run": asked, "reason": "r"}, follow=True)

    page = answer.content.decode()
    assert answer.redirect_chain == [(page_of(given), 302)]
    assert "was open for too long" in page
    assert "<strong>2</strong> dead letters match" in page
    assert not Requeue.objects.exists()


def test_a_requeued_letter_says_as_what_instead_of_offering_it_again(requeuer: Client):
    letter = rows.dead_letter()
    button = f'?ids={letter.pk}">Requeue</a>'
    assert button in requeuer.get(rows.change(NAME, letter.pk)).content.decode()

    requeue([letter.pk], by=Operator(), reason="r")

    page = requeuer.get(rows.change(NAME, letter.pk)).content.decode()
    assert button not in page
    assert "Requeued already, as <a" in page
    assert rows.change("sagas_saga", rows.successor(letter).pk) in page
