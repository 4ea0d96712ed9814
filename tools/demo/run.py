"""Runs the demo: subscribes a sample endpoint, publishes sample events and prints the results."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Count

from api import keys
from api.scopes import SCOPES
from events.intake import NewEvent, Published, publish_many
from events.models import Event
from jobs.models import Job
from sagas.models import Saga
from sagas.transitions import COMPLETED, DEAD_LETTERED, TERMINAL
from subscriptions.models import Subscription
from subscriptions.verification import verify
from tools.demo import certificates, database, environment, folders
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.runner.supervisor import die_with_parent
from webhookhub.terminal import ProgressBar

STAY_PORT = 9443
DESCRIPTION = "sample endpoint"
BATCH = 100
# path: event type, attempts allowed
SAMPLES = {"/steady": ("order.created", None), "/flaky": ("order.created", None), "/broken": ("order.refused", 3)}


def respond(request: Received) -> Reply:
    """/steady always succeeds, /flaky fails the first attempt of every third event, /broken always fails."""
    if request.path == "/broken":
        return Reply(500, b"this endpoint is broken on purpose")
    if request.path == "/flaky" and int(request.event_uid[-4:], 16) % 3 == 0 and request.attempt < 2:
        return Reply(503, b"busy on purpose, try again")
    return Reply()


def once(folder: Path, events: int, seconds: float) -> int:
    """Publishes, delivers, prints a summary. Returns 0 only if nothing was lost."""
    database.migrate()
    with HttpsEndpoint(folder / certificates.SERVER, respond) as endpoint, hub(folder) as process:
        started = time.monotonic()
        subscribe(endpoint)
        published = publish(events)
        ended = wait_until_terminal(published, started + seconds, process)
        code = summary(published, endpoint, time.monotonic() - started, ended)
    return code or process.returncode


def stay(folder: Path, web: str, events: int, seconds: float) -> int:
    """Delivers a few sample events and keeps the hub running until Ctrl-C."""
    require_free(web)
    database.migrate()
    password = administrator(folder / "admin-password")
    key = api_key(folder / "api-key")
    settings_file = folder / "hub.env"
    environment.write_for_shells(settings_file)
    with endpoint_on(STAY_PORT, folder / certificates.SERVER) as endpoint, hub(folder, "--web", web) as process:
        subscribe(endpoint)
        published = publish(events)
        until = time.monotonic() + seconds
        ended = wait_until_terminal(published, until, process)
        wait_for_web(web, until, process)
        if process.poll() is not None:
            return process.returncode
        steady = Subscription.objects.get(event_type=SAMPLES["/steady"][0], callback_url=endpoint.url("/steady"))
        print(
            f"""
WebhookHub is running{"" if ended else " (some sample events are not yet delivered)"}.

  console     http://{web}/admin/   user: admin   password: {password}
  API         http://{web}/api/docs
  endpoint    {endpoint.url("/steady")} (the requests it receives are listed below)
  log         {folders.shown(folder / folders.LOG)}

Publish an event from another terminal:

  HTTP        {curl(web, key)}
  command     .venv/bin/python manage.py publish_event order.created '{{"order": 1}}'

Commands that send requests need the hub's settings, once per terminal:

  settings    set -a; . {shlex.quote(str(folders.shown(settings_file)))}; set +a
  test event  .venv/bin/python manage.py send_test --subscription {steady.pk}

Press Ctrl-C to stop.
""",
            flush=True,
        )
        seen = len(endpoint.received)
        while process.poll() is None:
            with endpoint.arrived:
                endpoint.arrived.wait(0.5)
                requests = endpoint.received[seen:]
            for request in requests:
                print(f"received {request.path} event {request.event_uid} attempt {request.attempt}", flush=True)
            seen += len(requests)
        return process.returncode


@contextmanager
def hub(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `run_hub` in a process, and stops it at the end."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_hub", *arguments]
    path = folder / folders.LOG
    with path.open("wb") as log:
        process = subprocess.Popen(
            command,
            env=os.environ,
            stderr=log,
            # Its own session: Ctrl-C reaches only this process, which then stops the supervisor.
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        if process.wait():
            print(f"The hub ended with code {process.returncode}. The end of its log:", file=sys.stderr)
            print(path.read_text(errors="replace")[-2000:], file=sys.stderr)


def endpoint_on(port: int, certificate: Path) -> HttpsEndpoint:
    """The sample endpoint on this port, or on another if it is in use."""
    try:
        return HttpsEndpoint(certificate, respond, port)
    except OSError:
        return HttpsEndpoint(certificate, respond)


def wait_for_web(web: str, until: float, process: subprocess.Popen[bytes]) -> None:
    """Waits until the web server accepts connections, the hub has exited or the time is over."""
    host, _, port = web.rpartition(":")
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


def require_free(web: str) -> None:
    host, _, port = web.rpartition(":")
    if not host or not port.isdigit():
        raise SystemExit(f"{web} is not a valid address; use HOST:PORT, such as 127.0.0.1:8000")
    with socket.socket() as probe:
        # As the web server does: a port that was closed recently is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except (OSError, OverflowError) as error:
            raise SystemExit(
                f"Cannot listen on {web}: {error}. Choose another address: make run WEB=127.0.0.1:8001"
            ) from None


def subscribe(endpoint: HttpsEndpoint) -> None:
    """Subscribes the sample endpoint and verifies each subscription."""
    Subscription.objects.filter(description=DESCRIPTION).exclude(
        callback_url__in=[endpoint.url(path) for path in SAMPLES]
    ).update(active=False)
    for path, (event_type, limit) in SAMPLES.items():
        subscription, _ = Subscription.objects.get_or_create(
            event_type=event_type,
            callback_url=endpoint.url(path),
            defaults={"description": DESCRIPTION, "max_retry_limit": limit},
        )
        if not subscription.verified:
            result = verify(subscription)
            if not result.verified:
                raise SystemExit(f"{subscription.callback_url} could not be verified: {result.result}")


def publish(count: int) -> list[int]:
    """Publishes sample events, one in fifty of a type that always fails. Returns their ids."""
    bar, ids = ProgressBar("published", count), []
    for start in range(0, count, BATCH):
        batch = [
            NewEvent("order.refused" if number % 50 == 7 else "order.created", {"order": number, "total": "19.90"})
            for number in range(start, min(start + BATCH, count))
        ]
        for result in publish_many(batch):
            if not isinstance(result, Published):
                raise result
            ids.append(result.id)
        bar.show(len(ids))
    return ids


def expected(event_ids: list[int]) -> int:
    """The expected number of deliveries, counted from events and subscriptions."""
    by_type = dict(
        Subscription.objects.filter(active=True, verified=True).values_list("event_type").annotate(number=Count("id"))
    )
    types = Event.objects.filter(id__in=event_ids).values_list("event_type", flat=True)
    return sum(by_type.get(event_type, 0) for event_type in types)


def wait_until_terminal(event_ids: list[int], until: float, process: subprocess.Popen[bytes]) -> bool:
    """Waits until every delivery has ended. Returns False if the time is over or the hub has exited."""
    total = expected(event_ids)
    bar = ProgressBar("delivered", total)
    while True:
        counts = dict(
            Saga.objects.filter(event_id__in=event_ids, status__in=TERMINAL)
            .values_list("status")
            .annotate(n=Count("id"))
        )
        done = sum(counts.values())
        bar.show(done, f"({counts.get(DEAD_LETTERED, 0)} dead letters)")
        if done >= total:
            return True
        if time.monotonic() > until or process.poll() is not None:
            return False
        time.sleep(0.1)


def summary(event_ids: list[int], endpoint: HttpsEndpoint, seconds: float, ended: bool) -> int:
    sagas = Saga.objects.filter(event_id__in=event_ids)
    total = expected(event_ids)
    completed = list(sagas.filter(status=COMPLETED).values_list("event__uid", "subscription__callback_url"))
    arrived = {(request.event_uid, endpoint.url(request.path)) for request in endpoint.received}
    delivered = sum((str(uid), url) in arrived for uid, url in completed)
    dead = sagas.filter(status=DEAD_LETTERED, dead_letters__isnull=False).count()
    retried = Job.objects.filter(saga__event_id__in=event_ids, attempt_no__gt=1).values("saga_id").distinct().count()
    lost = total - delivered - dead
    lines = {
        "events": len(event_ids),
        "deliveries": sagas.count(),
        "delivered": delivered,
        "retried": retried,
        "dead-lettered": dead,
        "lost": lost,
        "seconds": round(seconds, 1),
        "deliveries per second": round(delivered / seconds, 1),
    }
    print()
    for name, value in lines.items():
        print(f"  {name:<22} {value}")
    if not ended:
        print("\nSome deliveries did not end in time.")
    return 0 if ended and lost == 0 else 1


def api_key(path: Path) -> str:
    """An API key with all scopes, kept in a file that only its owner can read."""
    if not path.exists() or keys.find(path.read_text()) is None:
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(keys.create(f"demo {secrets.token_hex(3)}", SCOPES, by="make run")[1])
    return path.read_text()


def curl(web: str, key: str) -> str:
    """A command line that publishes an event."""
    event = """'{"event_type": "order.created", "payload": {"order": 1}}'"""
    headers = f"-H 'Authorization: Bearer {key}' -H 'Content-Type: application/json'"
    return f"curl {headers} -d {event} http://{web}/api/v1/events"


def administrator(path: Path) -> str:
    """Creates the console's first user. The password is kept in a file that only its owner can read."""
    users = get_user_model().objects
    if not path.exists() or not users.filter(username="admin").exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(9))
        user, _ = users.get_or_create(username="admin", defaults={"is_staff": True, "is_superuser": True})
        user.set_password(path.read_text())
        user.save()
    return path.read_text()
