"""Times are typed in the zone in which they are shown: the viewer's."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import override

from api.models import ApiKey
from deadletters import filters, listing
from deadletters.models import DeadLetter
from tests.admin import rows
from tests.factories import SagaFactory
from webhookhub.console.zone import COOKIE, MomentField, named

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
    for module in (filters, listing):
        monkeypatch.setattr(module, "MOST_LISTED", 1)
    old, new = letter_of(NOON - timedelta(hours=1)), letter_of(NOON)
    query = {"error_code": "http_503", "until": "2026-03-01 20:00"}

    assert found(in_taipei, **query) == [new.pk]
    page = in_taipei.get(rows.listing("deadletters_deadletter"), query).content.decode()
    link = re.search(r'href="\?([^"]*)">Look further back', page)
    assert link is not None
    further = {name: values[0] for name, values in parse_qs(html.unescape(link[1])).items()}
    assert further["until"] == "2026-03-01 19:00:00+08:00"
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
    form = {"name": "till", "scopes": ["read"], "expires_at_0": "2099-03-01", "expires_at_1": "20:00:00"}

    assert "In the time zone Asia/Taipei." in in_taipei.get(rows.add("api_apikey")).content.decode()
    in_taipei.post(rows.add("api_apikey"), form)

    assert ApiKey.objects.get().expires_at == NOON.replace(year=2099)


@pytest.mark.parametrize(
    "name", ["", "Nowhere/City", "../../etc/passwd", "/etc/localtime", "Asia", "x" * 1000, "\0", "a\nb", "🦊"]
)
def test_a_zone_that_nobody_knows_is_utc(superuser: Client, name: str):
    assert named(name) is UTC
    if name.isascii() and name.isprintable():
        superuser.cookies[COOKIE] = name
        assert superuser.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize("text", ["0001-01-01 00:00", "9999-12-31 23:59", "1970-01-01", "soon", "2026-13-01 00:00"])
def test_a_time_that_is_none_says_how_to_write_one(text: str):
    field: Any = MomentField("Since")

    with override(TAIPEI), pytest.raises(Exception, match="Write the time as 2026-01-31 18:30"):
        field.clean(text)


def test_the_chart_says_utc_where_it_says_utc(in_taipei: Client):
    rows.one_of_each()
    context = in_taipei.get(reverse("admin:index")).context
    column = context["deliveries"]["chart"].columns[0]

    page = in_taipei.get(reverse("admin:index")).content.decode()

    assert f"{column.moment.astimezone(UTC):%H:%M} UTC: " in page
