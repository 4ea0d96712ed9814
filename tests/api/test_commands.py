"""The management commands of operators: their output as text and as JSON, and their errors."""

from __future__ import annotations

import io
import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from api import keys
from api.models import ApiKey
from deadletters.models import DeadLetter, Requeue
from events import backfill
from events.models import Event
from sagas import create
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.deadletters.helpers import dead_letter_before_its_delivery_ends
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from webhookhub.db import clock
from webhookhub.terminal import whole_number

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def test_a_created_key_is_printed_and_works():
    text = run("api_key", "create", "shop", "--scope", "events:write", "--scope", "read", "--source", "shop")

    caller = keys.find(text)
    assert caller is not None
    assert caller.key.scopes == "events:write read"
    assert caller.key.source == "shop"
    assert "(command line)" in caller.key.created_by
    assert text not in run("api_key", "list")
    [listed] = run_json("api_key", "list")["keys"]
    assert (listed["name"], listed["state"], listed["scopes"]) == ("shop", "valid", ["events:write", "read"])
    assert listed["last_used_at"] is not None


def test_a_key_is_revoked_by_its_name_or_its_id():
    created = run_json("api_key", "create", "a", "--scope", "read", "--expires", "30", "--rate", "5")
    assert created["events_per_second"] == 5
    assert created["expires_at"] is not None
    run("api_key", "create", "b", "--scope", "read", "--expires", "2099-01-31T00:00:00Z")

    assert run_json("api_key", "revoke", "a")["revoked_now"] is True
    assert run_json("api_key", "revoke", "a")["revoked_now"] is False
    assert run("api_key", "revoke", ApiKey.objects.get(name="b").key_id) == "b is revoked."
    assert keys.find(created["key"]) is None
    assert {key["state"] for key in run_json("api_key", "list")["keys"]} == {"revoked"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "x"], "scope is missing; give at least one of events:write"),
        (["create", "x", "--scope", "read", "--source", ""], "source is empty; name a producer, or omit --source"),
        (
            ["create", "x", "--scope", "read", "--rate", "100001"],
            "--rate: must be a whole number from 1 to 100000, not",
        ),
        (["create", "x", "--scope", "read", "--expires", "100000"], "--expires: give at most 99999 days, or a time"),
        (["create", "x", "--scope", "read", "--expires", "9" * 5000], "--expires: give at most 99999 days, or a time"),
        (["create", "x", "--scope", "read", "--expires", "٣"], "is not a time; write it as"),
        (["create", "x", "--scope", "read", "--expires", "2001-01-01T00:00:00Z"], "expires_at must be in the future"),
        (["revoke", "x"], "There is no key 'x'"),
        (["revoke", "\udcff"], r"There is no key '\\udcff'"),
    ],
)
def test_an_invalid_key_is_refused_with_a_message(arguments: list[str], message: str):
    with pytest.raises(CommandError, match=message):
        run("api_key", *arguments)
    assert not ApiKey.objects.exists()


@pytest.fixture
def letters() -> list[Any]:
    first, second = rows.dead_letter("http_500"), rows.dead_letter("timeout")
    saga: Any = SagaFactory(status="DeadLettered", attempt_count=3)
    third = DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code="timeout",
        failed_at=clock.now(),
        payload_snapshot="{}",
    )
    return [first, second, third]


def test_dead_letters_are_listed_and_then_requeued_once(letters: list[Any]):
    command = ["requeue_dead_letters", "--error-code", "timeout"]

    preview = run_json(*command, "--dry-run")
    assert (preview["count"], preview["more"]) == (2, False)
    assert [letter["id"] for letter in preview["sample"]] == [letters[1].id, letters[2].id]
    assert "2 dead letters would be requeued." in run(*command, "--dry-run")
    assert not Requeue.objects.exists()

    done = run_json(*command, "--reason", "back", "--limit", "1")
    assert done == {"dry_run": False, "count": 1, "not_ended": 0, "more": True}
    assert run(*command, "--reason", "back") == "1 dead letters requeued."
    assert run_json(*command, "--reason", "back")["count"] == 0
    assert Saga.objects.filter(generation=1).count() == 2
    assert {request.reason for request in Requeue.objects.all()} == {"back"}
    assert all("(command line)" in request.requested_by for request in Requeue.objects.all())


def test_dead_letters_are_filtered_by_subscription_type_and_time(letters: list[Any]):
    count = run_json("requeue_dead_letters", "--dry-run", "--subscription", str(letters[0].subscription_id))["count"]
    later = (clock.now() + timedelta(hours=1)).isoformat()

    assert count == 1
    assert run_json("requeue_dead_letters", "--dry-run", "--event-type", "order.created")["count"] == 3
    assert run_json("requeue_dead_letters", "--dry-run", "--since", later)["count"] == 0
    assert run_json("requeue_dead_letters", "--dry-run", "--until", later)["count"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a reason: --reason"),
        (["--reason", " "], "reason must be a text of 1 to 500 characters"),
        (["--reason", "x", "--since", "yesterday"], "--since: 'yesterday' is not a time"),
        (["--reason", "x", "--since", "2026-02-01", "--until", "2026-01-31T23:59:59Z"], "--until is before --since"),
        (["--reason", "x", "--limit=1000001"], "--limit: must be a whole number from 1 to 1000000, not"),
        (
            ["--reason", "x", f"--subscription={2**63}"],
            f"--subscription: must be a whole number from 1 to {2**63 - 1}",
        ),
        *(
            (["--reason", "x", f"--error-code={code}"], "--error-code: must be an error code, such as http_500")
            for code in ("", "HTTP 500", "a" * 501, "timeout\n")
        ),
        *(
            (["--reason", "x", f"--event-type={name}"], "--event-type: must be 1 to 100 letters, digits, dots")
            for name in ("a" * 101, "\udcff")
        ),
    ],
)
def test_an_invalid_requeue_is_refused_with_a_message(letters: list[Any], arguments: list[str], message: str):
    with pytest.raises(CommandError, match=message):
        run("requeue_dead_letters", *arguments)
    assert not Requeue.objects.exists()


def test_a_requeue_that_would_wait_needs_an_option(letters: list[Any]):
    Subscription.objects.filter(pk=letters[0].subscription_id).update(verified=False)
    command = ["requeue_dead_letters", "--reason", "back"]

    with pytest.raises(CommandError, match=r"is not verified: .* Use --allow-waiting to requeue anyway"):
        run(*command)
    assert not Requeue.objects.exists()
    assert run(*command, "--allow-waiting") == "3 dead letters requeued."


def test_a_dead_letter_waits_for_the_end_of_its_delivery_and_the_others_are_requeued(letters: list[Any]):
    waiting = dead_letter_before_its_delivery_ends()
    skipped = "1 skipped: their deliveries have not ended yet; try again in a minute."

    assert f"3 dead letters would be requeued. {skipped}" in run("requeue_dead_letters", "--dry-run")
    assert run("requeue_dead_letters", "--reason", "back") == f"3 dead letters requeued. {skipped}"
    assert not Requeue.objects.filter(dead_letter=waiting).exists()
    done = json.loads(run("requeue_dead_letters", "--reason", "back", "--json"))
    assert done == {"dry_run": False, "count": 0, "not_ended": 1, "more": False}


@pytest.mark.parametrize("text", ["0", "-5", "1001", "9" * 5000, "1.5", "1_000", "٣", ""])
def test_an_option_that_is_not_an_integer_in_range_is_refused(text: str):
    with pytest.raises(ArgumentTypeError, match="must be a whole number from 1 to 1000, not"):
        whole_number(1000)(text)


def test_both_bounds_of_an_integer_option_are_accepted():
    assert [whole_number(1000)(text) for text in ("1", "1000")] == [1, 1000]


def test_past_events_are_backfilled_in_batches(hub_settings: Callable[..., None]):
    hub_settings(batch_size=2)
    for _ in range(5):
        EventFactory()
    subscription: Any = SubscriptionFactory()
    since = (clock.now() - timedelta(hours=1)).isoformat()

    assert run_json("backfill", str(subscription.pk), "--since", since) == {"examined": 5, "created": 5}
    assert "0 deliveries created" in run("backfill", str(subscription.pk), "--since", since)
    assert Saga.objects.count() == 5


def test_a_backfill_stops_when_the_subscription_is_disabled(
    hub_settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    hub_settings(batch_size=2)
    for _ in range(5):
        EventFactory()
    subscription: Any = SubscriptionFactory()
    create_sagas = create.create_sagas

    def create_and_disable(*args: Any, **kwargs: Any) -> Any:
        created = create_sagas(*args, **kwargs)
        Subscription.objects.filter(pk=subscription.pk).update(active=False)
        return created

    monkeypatch.setattr(backfill, "create_sagas", create_and_disable)

    with pytest.raises(CommandError, match=r"activate and verify it first\. 2 deliveries were created before\.$"):
        run("backfill", str(subscription.pk), "--since", (clock.now() - timedelta(hours=1)).isoformat())
    assert Saga.objects.count() == 2


def test_an_invalid_backfill_is_refused_with_a_message():
    subscription: Any = SubscriptionFactory(active=False)

    with pytest.raises(CommandError, match="gets no deliveries; activate and verify it first"):
        run("backfill", str(subscription.pk), "--since", "2026-01-01")
    with pytest.raises(CommandError, match="--until lies before --since"):
        run("backfill", str(subscription.pk), "--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z")
    with pytest.raises(CommandError, match="gets no deliveries"):
        run("backfill", "99", "--since", "2026-01-01T00:00:00Z")


def test_a_published_payload_is_stored_as_written():
    result = run_json("publish_event", "order.created", '{"b": 1,  "a": 2}')

    stored = Event.objects.get()
    assert result == {"uid": str(stored.uid), "created": True}
    assert json.loads(stored.payload) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("@", "payload: a file's path must follow the @, as in @order.json"),
        ("@/", "payload: / cannot be read: Is a directory"),
        ("@/nowhere.json", "payload: /nowhere.json cannot be read: No such file"),
    ],
)
def test_an_unreadable_payload_file_is_named(payload: str, message: str):
    with pytest.raises(CommandError, match=message):
        run("publish_event", "order.created", payload)
    assert not Event.objects.exists()
