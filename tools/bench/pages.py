"""Opens every page of the console on a database that seed_bulk has filled, through Django's test client, and prints
the median time and the number of queries of each.

    DATABASE_URL=mysql://… python -m tools.bench.pages --rounds 7

Exits 1 if a page takes longer than 300 ms or needs more than 15 queries.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

MAX_MS = 300.0
MAX_QUERIES = 15
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


def urls() -> Iterator[tuple[str, str]]:
    """Yields a name and a URL for each page."""
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
        "id": event.id,
        "nothing": "no-such-term",
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
    yield "page of a dead delivery", reverse("admin:sagas_saga_change", args=[letter.saga_id])
    first = Requeue.objects.order_by("id").select_related("dead_letter__saga")[0].dead_letter
    yield "page of a requeued dead letter", reverse("admin:deadletters_deadletter_change", args=[first.pk])
    yield "page of a requeued delivery", reverse("admin:sagas_saga_change", args=[first.saga_id])
    successor = Saga.objects.get(
        event=first.event_id, subscription=first.subscription_id, generation=first.saga.generation + 1
    )
    yield "page of the delivery of a requeue", reverse("admin:sagas_saga_change", args=[successor.pk])
    yield "page to add a subscription", reverse("admin:subscriptions_subscription_add")
    for name in ("sagas_saga", "events_event", "deadletters_deadletter"):
        for field, term in terms.items():
            yield f"search {name} by {field}", reverse(f"admin:{name}_changelist") + f"?q={term}"
    filters = dead_letter_filters(letter.subscription_id, letter.event.event_type)
    filters["search and filter"] = f"?q={letter.event.uid}&event_type={letter.event.event_type}&requeued=no"
    filters["event"] = f"?event={letter.event_id}"
    for kind, query in filters.items():
        yield f"dead letters by {kind}", reverse("admin:deadletters_deadletter_changelist") + query
        yield f"confirm requeue by {kind}", reverse("admin:deadletters_deadletter_requeue_matching") + query
    yield "confirm requeue of one", reverse("admin:deadletters_deadletter_requeue") + f"?ids={letter.id}"
    thousand = ",".join(map(str, DeadLetter.objects.order_by("-id").values_list("id", flat=True)[:1000]))
    yield "confirm requeue of a thousand", reverse("admin:deadletters_deadletter_requeue") + f"?ids={thousand}"
    yield from console_searches(terms | {"error code": letter.final_error_code, "host": "hooks7.example.com"})


def dead_letter_filters(subscription: int, event_type: str) -> dict[str, str]:
    both = f"subscription={subscription}&event_type={event_type}"
    # Within the stored range: otherwise the server does not have to search the index.
    since = (datetime.now(UTC) - timedelta(days=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "error": "?error_code=timeout",
        "subscription": f"?subscription={subscription}",
        "event type": f"?event_type={event_type}",
        "time": f"?since={since}",
        "not requeued": "?requeued=no",
        "requeued": "?requeued=yes",
        "all fields": f"?error_code=timeout&{both}&since={since}&requeued=no",
        "nothing": "?error_code=http_999&requeued=no",
    }


def console_searches(terms: dict[str, object]) -> Iterator[tuple[str, str]]:
    from django.urls import reverse

    search = reverse("admin:search")
    for field, term in terms.items():
        yield f"search by {field}", f"{search}?q={term}"


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
    for name, url in urls():
        with CaptureQueriesContext(connection) as captured:
            status = client.get(url).status_code
        # Copied, because the next request clears them.
        queries = list(captured.captured_queries)
        durations = []
        for _ in range(rounds):
            started = time.perf_counter()
            client.get(url)
            durations.append((time.perf_counter() - started) * 1000)
        median = statistics.median(durations)
        bad = status != 200 or median > MAX_MS or len(queries) > MAX_QUERIES
        failed += bad
        times = f"{median:7.1f} ms (best {min(durations):6.1f})"
        print(f"{'!!' if bad else '  '} {status} {times} {len(queries):3} queries {name}", flush=True)
        if median > MAX_MS:
            slowest = max(queries, key=lambda query: float(query["time"]))
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
    print(f"{failed} pages exceed a limit" if failed else "all pages are within the limits")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
