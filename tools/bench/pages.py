"""Opens every list, page and search of the console on a database that seed_bulk has filled, through Django's test
client, and prints the median time on the server and the number of queries of each.

    DATABASE_URL=mysql://… python -m tools.bench.pages --rounds 7

Exits 1 if one takes longer than 300 ms or asks more than 15 queries.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

MOST_MS = 300.0
MOST_QUERIES = 15
USER = "seed-superuser"
LISTS = (
    "sagas_saga",
    "events_event",
    "jobs_job",
    "deadletters_deadletter",
    "subscriptions_subscription",
    "webhookhub_process",
    "api_apikey",
    "auditlog_entry",
    "auth_user",
    "auth_group",
)


def addresses() -> Iterator[tuple[str, str]]:
    """A name and an address for each thing that can be opened."""
    from django.urls import reverse

    from deadletters.models import DeadLetter, Requeue
    from events.models import Event
    from jobs.models import Job
    from sagas.models import Saga
    from sagas.transitions import STATUSES

    newest = {
        "sagas_saga": Saga.objects.order_by("-id").values_list("id", flat=True)[0],
        "events_event": Event.objects.order_by("-id").values_list("id", flat=True)[0],
        "jobs_job": Job.objects.order_by("-id").values_list("id", flat=True)[0],
        "deadletters_deadletter": DeadLetter.objects.order_by("-id").values_list("id", flat=True)[0],
        "subscriptions_subscription": 1,
    }
    event = Event.objects.get(id=newest["events_event"] // 2)
    letter = DeadLetter.objects.order_by("-id")[0]
    terms = {
        "uid": event.uid,
        "external id": event.external_id,
        "correlation id": event.correlation_id,
        "number": event.id,
        "nothing": "there-is-no-such-thing",
    }
    yield "overview", reverse("admin:index")
    for name in LISTS:
        listing = reverse(f"admin:{name}_changelist")
        yield f"list {name}", listing
        if name in newest and name != "subscriptions_subscription":
            yield f"list {name}, page 9", f"{listing}?p=9"
    for status in STATUSES:
        yield f"list of {status}", reverse("admin:sagas_saga_changelist") + f"?status__exact={status}"
    for name, pk in newest.items():
        yield f"page {name}", reverse(f"admin:{name}_change", args=[pk])
    yield "page of a dead saga", reverse("admin:sagas_saga_change", args=[letter.saga_id])
    # One that was requeued, its delivery and the one that came of it.
    first = Requeue.objects.order_by("id").select_related("dead_letter__saga")[0].dead_letter
    yield "page of a requeued dead letter", reverse("admin:deadletters_deadletter_change", args=[first.pk])
    yield "page of a requeued saga", reverse("admin:sagas_saga_change", args=[first.saga_id])
    anew = Saga.objects.get(
        event=first.event_id, subscription=first.subscription_id, generation=first.saga.generation + 1
    )
    yield "page of the saga of a requeue", reverse("admin:sagas_saga_change", args=[anew.pk])
    yield "page to add a subscription", reverse("admin:subscriptions_subscription_add")
    for name in ("sagas_saga", "events_event", "deadletters_deadletter"):
        for what, term in terms.items():
            yield f"search {name} by {what}", reverse(f"admin:{name}_changelist") + f"?q={term}"
    filters = dead_letter_filters(letter.subscription_id, letter.event.event_type)
    filters["search and filter"] = f"?q={letter.event.uid}&event_type={letter.event.event_type}&requeued=no"
    filters["event"] = f"?event={letter.event_id}"
    for what, query in filters.items():
        yield f"dead letters by {what}", reverse("admin:deadletters_deadletter_changelist") + query
        yield f"ask to requeue by {what}", reverse("admin:deadletters_deadletter_requeue_matching") + query
    yield "ask to requeue one", reverse("admin:deadletters_deadletter_requeue") + f"?ids={letter.id}"
    thousand = ",".join(map(str, DeadLetter.objects.order_by("-id").values_list("id", flat=True)[:1000]))
    yield "ask to requeue a thousand", reverse("admin:deadletters_deadletter_requeue") + f"?ids={thousand}"
    yield from console_searches(terms | {"error code": letter.final_error_code, "host": "hooks7.example.com"})


def dead_letter_filters(subscription: int, event_type: str) -> dict[str, str]:
    both = f"subscription={subscription}&event_type={event_type}"
    # Within what is there: of a time before all of it a server need not look for a place.
    since = (datetime.now(UTC) - timedelta(days=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "error": "?error_code=timeout",
        "subscription": f"?subscription={subscription}",
        "event type": f"?event_type={event_type}",
        "time": f"?since={since}",
        "not requeued": "?requeued=no",
        "requeued": "?requeued=yes",
        "everything": f"?error_code=timeout&{both}&since={since}&requeued=no",
        "nothing that is there": "?error_code=http_999&requeued=no",
    }


def console_searches(terms: dict[str, object]) -> Iterator[tuple[str, str]]:
    """The one box, where the console has it."""
    from django.urls import NoReverseMatch, reverse

    try:
        box = reverse("admin:search")
    except NoReverseMatch:
        return
    for what, term in terms.items():
        yield f"search by {what}", f"{box}?q={term}"


def measure(rounds: int) -> int:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    settings.ALLOWED_HOSTS = ["testserver"]
    user = User.objects.filter(username=USER).first() or User.objects.create_superuser(USER)
    client = Client()
    client.force_login(user)
    failed = 0
    for name, address in addresses():
        with CaptureQueriesContext(connection) as captured:
            status = client.get(address).status_code
        # Now: the next request forgets them.
        asked = list(captured.captured_queries)
        taken = []
        for _ in range(rounds):
            started = time.perf_counter()
            client.get(address)
            taken.append((time.perf_counter() - started) * 1000)
        median = statistics.median(taken)
        bad = status != 200 or median > MOST_MS or len(asked) > MOST_QUERIES
        failed += bad
        print(
            f"{'!!' if bad else '  '} {status} {median:7.1f} ms (best {min(taken):6.1f}) {len(asked):3} queries {name}",
            flush=True,
        )
        if median > MOST_MS:
            slowest = max(asked, key=lambda query: float(query["time"]))
            print(f"      {float(slowest['time']) * 1000:.0f} ms  {slowest['sql'][:300]}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
    import django

    django.setup()
    failed = measure(options.rounds)
    print(f"{failed} too slow or with too many queries" if failed else "all within bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
