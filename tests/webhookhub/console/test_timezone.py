"""Times are typed in the zone in which they are shown: the viewer's."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils.timezone import override

from api.models import ApiKey
from deadletters import admin
from deadletters.models import DeadLetter
from tests.factories import SagaFactory
from tests.support import rows
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.console.forms import MomentField, written
from webhookhub.console.timezone import COOKIE, named

pytestmark = pytest.mark.django_db

TAIPEI = ZoneInfo("Asia/Taipei")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def in_taipei(superuser: Client) -> Client:
    superuser.cookies[COOKIE] = "Asia/Taipei"
    return superuser


def letter_of(moment: datetime) -> DeadLetter:
    saga = SagaFactory.create(status="DeadLettered", attempt_count=3, final_error_code="http_503")
    return DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code="http_503",
        failed_at=moment,
        payload_snapshot="{}",
    )


def found(client: Client, **query: str) -> list[int]:
    answer = client.get(rows.listing("deadletters_deadletter"), query)
    assert answer.status_code == 200
    return [letter.pk for letter in answer.context["cl"].result_list]


def test_the_filter_of_dead_letters_means_the_viewers_time(superuser: Client):
    letter = letter_of(NOON)

    def at(since: str) -> bool:
        return letter.pk in found(superuser, since=since, until="2026-03-02 12:00")

    assert (at("2026-03-01 11:59"), at("2026-03-01 12:01")) == (True, False)
    superuser.cookies[COOKIE] = "Asia/Taipei"
    assert (at("2026-03-01 19:59"), at("2026-03-01 20:01")) == (True, False)
    assert at("2026-03-01 11:59+00:00")


def test_the_filter_names_the_zone_and_says_utc_when_pointed_at(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")

    page = in_taipei.get(address, {"since": "2026-03-01 20:00"}).content.decode()

    assert "Failed since (Asia/Taipei)" in page
    assert 'title="2026-03-01 12:00:00 UTC"' in page
    assert (
        "Write the time as 2026-01-31 18:30 (Asia/Taipei)." in in_taipei.get(address, {"since": "x"}).content.decode()
    )
    del in_taipei.cookies[COOKIE]
    assert "Failed since (UTC)" in in_taipei.get(address).content.decode()


def test_to_look_further_back_begins_at_the_same_moment_in_any_zone(in_taipei: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_LISTED", 1)
    old, new = letter_of(NOON - timedelta(hours=1)), letter_of(NOON)
    query = {"error_code": "http_503", "until": "2026-03-01 20:00"}

    assert found(in_taipei, **query) == [new.pk]
    page = in_taipei.get(rows.listing("deadletters_deadletter"), query).content.decode()
    link = re.search(r'href="\?([^"]*)">Search older ones', page)
    assert link is not None
    further = {name: values[0] for name, values in parse_qs(html.unescape(link[1])).items()}
    assert further["until"] == "2026-03-01 20:00:00+08:00"
    assert found(in_taipei, **further) == [old.pk]


def test_a_backfill_means_the_viewers_time(in_taipei: Client):
    number = rows.one_of_each()["subscriptions_subscription"]
    address = reverse("admin:subscription_backfill", args=[number])
    ahead = datetime.now(TAIPEI) - timedelta(minutes=5)

    assert "Events since (Asia/Taipei)" in in_taipei.get(address).content.decode()
    given = {"since": f"{ahead:%Y-%m-%d %H:%M}", "reason": "missed"}
    assert in_taipei.post(address, given).context["run"].since == ahead.replace(second=0, microsecond=0)
    in_taipei.cookies[COOKIE] = "UTC"
    # The same words, read as UTC, are eight hours ahead.
    assert "yet to come" in in_taipei.post(address, given).content.decode()


def test_an_api_key_expires_at_the_viewers_time(in_taipei: Client):
    form = {"name": "till", "scopes": ["read"], "expires_at": "2099-03-01 20:00"}

    assert "Expires at (Asia/Taipei)" in in_taipei.get(rows.add("api_apikey")).content.decode()
    in_taipei.post(rows.add("api_apikey"), form)

    assert ApiKey.objects.get().expires_at == NOON.replace(year=2099)


@pytest.mark.parametrize(
    "name", ["", "Nowhere/City", "../../etc/passwd", "/etc/localtime", "Asia", "x" * 1000, "\0", "🦊"]
)
def test_an_unknown_zone_is_utc(name: str):
    assert named(name) is UTC


def test_a_page_with_an_unknown_zone_is_shown(superuser: Client):
    superuser.cookies[COOKIE] = "../../etc/passwd"

    assert superuser.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize("text", ["0001-01-01 00:00", "9999-12-31 23:59", "1970-01-01", "soon", "2026-13-01 00:00"])
def test_a_time_that_is_none_says_how_to_write_one(text: str):
    field: Any = MomentField("Since")

    with override(TAIPEI), pytest.raises(Exception, match="Write the time as 2026-01-31 18:30"):
        field.clean(text)


BERLIN = ZoneInfo("Europe/Berlin")


def test_a_time_that_the_clocks_show_twice_is_asked_about():
    field: Any = MomentField("Since")

    with override(BERLIN), pytest.raises(ValidationError) as refused:
        field.clean("2026-10-25 02:30")

    assert refused.value.messages == [
        "In Europe/Berlin the clocks show 2026-10-25 02:30 twice that day. "
        "Write 2026-10-25 02:30+02:00 or, for the second, 2026-10-25 02:30+01:00."
    ]
    with override(BERLIN):
        assert field.clean("2026-10-25 02:30+02:00") == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
        assert field.clean("2026-10-25 02:30+01:00") == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_a_time_that_the_clocks_leave_out_is_asked_about():
    field: Any = MomentField("Since")

    with override(BERLIN), pytest.raises(ValidationError) as refused:
        field.clean("2026-03-29 02:30")

    assert refused.value.messages == [
        "In Europe/Berlin the clocks leave out 2026-03-29 02:30 that day. "
        "Write 2026-03-29 01:30+01:00 or, after it, 2026-03-29 03:30+02:00."
    ]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 1, 12, 0, tzinfo=UTC), "2026-03-01 13:00"),
        (datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC), "2026-03-01 13:00:05"),
        (datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=UTC), "2026-03-01 13:00:00.25"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "2026-10-25 02:30+02:00"),
        (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "2026-10-25 02:30+01:00"),
    ],
)
def test_what_is_written_can_be_typed_again(moment: datetime, text: str):
    field: Any = MomentField("Since")

    with override(BERLIN):
        assert written(moment) == text
        assert field.clean(text) == moment


@pytest.mark.parametrize("zone", ["Etc/GMT-8", "EST"])
def test_a_form_is_read_in_the_zone_that_it_was_shown_in(superuser: Client, zone: str):
    """Whatever the browser says by then."""
    number = rows.one_of_each()["subscriptions_subscription"]
    address = reverse("admin:subscription_backfill", args=[number])
    superuser.cookies[COOKIE] = zone
    page = superuser.get(address).content.decode()
    sent = re.search(rf'<input type="hidden" name="{COOKIE}" value="([^"]+)">', page)
    assert sent is not None

    superuser.cookies[COOKIE] = "Pacific/Auckland"
    run = superuser.post(address, {"since": "2026-01-02 12:00", "reason": "r", COOKIE: sent[1]}).context["run"]

    assert run.since == datetime(2026, 1, 2, 12, 0, tzinfo=ZoneInfo(zone))


def test_a_filter_that_is_sent_leads_to_an_address_that_means_the_same_everywhere(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")
    form = {"error_code": "http_503", "since": "2026-03-01 20:00", "until": "", "q": "x", COOKIE: "Asia/Taipei"}

    answer = in_taipei.get(address, form)

    assert answer.status_code == 302
    led = parse_qs(answer["Location"].partition("?")[2])
    assert led == {"error_code": ["http_503"], "since": ["2026-03-01T12:00:00Z"], "q": ["x"]}
    in_taipei.cookies[COOKIE] = "Europe/Berlin"
    page = in_taipei.get(answer["Location"]).content.decode()
    assert 'value="2026-03-01 13:00"' in page
    assert "Failed since (Europe/Berlin)" in page


def test_a_filter_with_a_time_that_cannot_be_read_is_shown_as_it_was_typed(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")

    page = in_taipei.get(address, {"since": "2026-10-25 02:30", COOKIE: "Europe/Berlin"}).content.decode()

    assert "the clocks show 2026-10-25 02:30 twice" in page
    assert 'value="2026-10-25 02:30"' in page


def test_what_a_filter_chooses_is_said_in_the_viewers_zone_and_in_utc_in_the_trail(in_taipei: Client):
    letter = letter_of(NOON.replace(microsecond=250_000))
    address = reverse("admin:deadletters_deadletter_requeue_matching") + "?since=2026-03-01T12:00:00.25Z"

    page = in_taipei.get(address).content.decode()
    sealed = re.search(r'name="run" value="([^"]+)"', page)
    assert sealed is not None
    in_taipei.post(address, {"run": sealed[1], "reason": "r"})

    assert "since 2026-03-01 20:00:00.25 (Asia/Taipei)" in page
    entry = Entry.objects.get(action=actions.REQUEUE_MATCHING)
    assert entry.object_name == "since 2026-03-01 12:00:00.250000 (UTC)"
    assert rows.successor(letter)


def test_the_chart_says_utc_where_it_says_utc(in_taipei: Client):
    rows.one_of_each()
    context = in_taipei.get(reverse("admin:index")).context
    column = context["deliveries"]["chart"].columns[0]

    page = in_taipei.get(reverse("admin:index")).content.decode()

    assert f"{column.moment.astimezone(UTC):%H:%M} UTC: " in page
