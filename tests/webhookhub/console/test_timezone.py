"""Times are entered and shown in the viewer's time zone."""

from __future__ import annotations

import html
import json
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
from webhookhub.console.forms import LocalDateTimeField
from webhookhub.console.middleware import COOKIE, zone_or_utc

pytestmark = pytest.mark.django_db

TAIPEI = ZoneInfo("Asia/Taipei")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def in_taipei(superuser: Client) -> Client:
    superuser.cookies[COOKIE] = "Asia/Taipei"
    return superuser


def letter_failed_at(failed_at: datetime) -> DeadLetter:
    saga = SagaFactory.create(status="DeadLettered", attempt_count=3, final_error_code="http_503")
    return DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code="http_503",
        failed_at=failed_at,
        payload_snapshot="{}",
    )


def search_for(client: Client, **query: str) -> list[int]:
    response = client.get(rows.listing("deadletters_deadletter"), query)
    assert response.status_code == 200
    return [letter.pk for letter in response.context["cl"].result_list]


def test_the_filter_of_dead_letters_uses_the_viewers_time_zone(superuser: Client):
    letter = letter_failed_at(NOON)

    def at(since: str) -> bool:
        return letter.pk in search_for(superuser, since=since, until="2026-03-02 12:00")

    assert (at("2026-03-01 11:59"), at("2026-03-01 12:01")) == (True, False)
    superuser.cookies[COOKIE] = "Asia/Taipei"
    assert (at("2026-03-01 19:59"), at("2026-03-01 20:01")) == (True, False)
    assert at("2026-03-01 11:59+00:00")


def test_the_filter_names_the_zone(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")

    page = in_taipei.get(address, {"since": "2026-03-01 20:00"}).content.decode()

    assert "Failed since (Asia/Taipei)" in page
    assert 'value="2026-03-01T20:00:00"' in page
    invalid = in_taipei.get(address, {"since": "x"}).content.decode()
    assert "Enter a date and time such as 2026-01-31 18:30 (Asia/Taipei)." in invalid
    del in_taipei.cookies[COOKIE]
    assert "Failed since (UTC)" in in_taipei.get(address).content.decode()


def test_looking_further_back_is_independent_of_the_time_zone(in_taipei: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_LISTED", 1)
    old, new = letter_failed_at(NOON - timedelta(hours=1)), letter_failed_at(NOON)
    query = {"error_code": "http_503", "until": "2026-03-01 20:00"}

    assert search_for(in_taipei, **query) == [new.pk]
    page = in_taipei.get(rows.listing("deadletters_deadletter"), query).content.decode()
    link = re.search(r'href="\?([^"]*)">Search older ones', page)
    assert link is not None
    further = {name: values[0] for name, values in parse_qs(html.unescape(link[1])).items()}
    assert further["until"] == "2026-03-01 20:00:00+08:00"
    assert search_for(in_taipei, **further) == [old.pk]


def test_a_backfill_uses_the_viewers_time_zone(in_taipei: Client):
    pk = rows.one_of_each()["subscriptions_subscription"]
    address = reverse("admin:subscription_backfill", args=[pk])
    ahead = datetime.now(TAIPEI) - timedelta(minutes=5)

    assert "Events since (Asia/Taipei)" in in_taipei.get(address).content.decode()
    form = {"since": f"{ahead:%Y-%m-%d %H:%M}", "reason": "missed"}
    assert in_taipei.post(address, form).context["run"].since == ahead.replace(second=0, microsecond=0)
    in_taipei.cookies[COOKIE] = "UTC"
    # Eight hours in the future if it is parsed as UTC.
    assert "Enter a time in the past." in in_taipei.post(address, form).content.decode()


def test_the_expiry_of_an_api_key_uses_the_viewers_time_zone(in_taipei: Client):
    form = {"name": "till", "scopes": ["read"], "expires_at": "2099-03-01 20:00"}

    assert "Expires at (Asia/Taipei)" in in_taipei.get(rows.add("api_apikey")).content.decode()
    in_taipei.post(rows.add("api_apikey"), form)

    assert ApiKey.objects.get().expires_at == NOON.replace(year=2099)


@pytest.mark.parametrize(
    "name", ["", "Nowhere/City", "../../etc/passwd", "/etc/localtime", "Asia", "x" * 1000, "\0", "🦊"]
)
def test_an_unknown_zone_is_utc(name: str):
    assert zone_or_utc(name) is UTC


def test_a_page_with_an_unknown_zone_is_shown(superuser: Client):
    superuser.cookies[COOKIE] = "../../etc/passwd"

    assert superuser.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize("text", ["0001-01-01 00:00", "9999-12-31 23:59", "1970-01-01", "soon", "2026-13-01 00:00"])
def test_an_invalid_time_is_explained(text: str):
    field: Any = LocalDateTimeField("Since")

    with override(TAIPEI), pytest.raises(Exception, match="Enter a date and time such as 2026-01-31 18:30"):
        field.clean(text)


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("text", ["2026-10-25 02:30", "2026-03-29 02:30"], ids=["ambiguous", "skipped"])
def test_an_ambiguous_or_skipped_time_is_refused(text: str):
    field: Any = LocalDateTimeField("Since")

    with override(BERLIN), pytest.raises(ValidationError, match="may be ambiguous or it may not exist"):
        field.clean(text)


def test_a_time_with_an_offset_is_accepted():
    field: Any = LocalDateTimeField("Since")

    with override(BERLIN):
        assert field.clean("2026-10-25 02:30+01:00") == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Etc/GMT-8", "EST"])
def test_a_form_is_parsed_in_the_zone_it_was_rendered_in(superuser: Client, zone: str):
    pk = rows.one_of_each()["subscriptions_subscription"]
    address = reverse("admin:subscription_backfill", args=[pk])
    superuser.cookies[COOKIE] = zone
    page = superuser.get(address).content.decode()
    sent = re.search(rf'<input type="hidden" name="{COOKIE}" value="([^"]+)">', page)
    assert sent is not None

    superuser.cookies[COOKIE] = "Pacific/Auckland"
    run = superuser.post(address, {"since": "2026-01-02 12:00", "reason": "r", COOKIE: sent[1]}).context["run"]

    assert run.since == datetime(2026, 1, 2, 12, 0, tzinfo=ZoneInfo(zone))


def test_a_submitted_filter_redirects_to_a_url_in_utc(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")
    form = {"error_code": "http_503", "since": "2026-03-01 20:00", "until": "", "q": "x", COOKIE: "Asia/Taipei"}

    response = in_taipei.get(address, form)

    assert response.status_code == 302
    query = parse_qs(response["Location"].partition("?")[2])
    assert query == {"error_code": ["http_503"], "since": ["2026-03-01T12:00:00Z"], "q": ["x"]}
    in_taipei.cookies[COOKIE] = "Europe/Berlin"
    page = in_taipei.get(response["Location"]).content.decode()
    assert 'value="2026-03-01T13:00:00"' in page
    assert "Failed since (Europe/Berlin)" in page


def test_a_filter_with_an_invalid_time_is_shown_with_an_error(in_taipei: Client):
    address = rows.listing("deadletters_deadletter")

    page = in_taipei.get(address, {"since": "2026-10-25 02:30", COOKIE: "Europe/Berlin"}).content.decode()

    assert "may be ambiguous" in page
    assert 'value="2026-10-25 02:30"' in page


def test_a_filter_is_described_in_the_viewers_zone_and_in_utc_in_the_audit_log(in_taipei: Client):
    letter = letter_failed_at(NOON.replace(microsecond=250_000))
    address = reverse("admin:deadletters_deadletter_requeue_matching") + "?since=2026-03-01T12:00:00.25Z"

    page = in_taipei.get(address).content.decode()
    signed = re.search(r'name="run" value="([^"]+)"', page)
    assert signed is not None
    in_taipei.post(address, {"run": signed[1], "reason": "r"})

    assert "since: 2026-03-01 20:00:00.250000+08:00" in page
    entry = Entry.objects.get(action=actions.REQUEUE_MATCHING)
    assert json.loads(entry.details)["filter"] == {"since": "2026-03-01T12:00:00.250000+00:00"}
    assert rows.successor(letter)


def test_the_tooltips_of_the_chart_are_in_utc(in_taipei: Client):
    rows.one_of_each()
    context = in_taipei.get(reverse("admin:index")).context
    column = context["deliveries"].chart.columns[0]

    page = in_taipei.get(reverse("admin:index")).content.decode()

    assert f"{column.at.astimezone(UTC):%H:%M} UTC: " in page
