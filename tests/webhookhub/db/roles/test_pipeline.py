"""The whole hub with one database user per role: the declared grants are enough for every process."""

from __future__ import annotations

import json
import re
import threading
from datetime import timedelta

import pytest
import requests
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User
from django.db import connection

from deadletters.models import DeadLetter, Requeue
from events import intake
from events.models import Event, RoutingInbox
from events.routing import Router
from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.processes.support import Processes, Running, database_url, until
from tests.workflows.lives import DEFINITIONS
from tests.workflows.support import published, tell, told_before
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from tools.support.ports import free_port
from webhookhub.models import Process
from workflows.models import Instance
from workflows.scenarios import happy

from .accounts import PASSWORD, execute, grant_roles, role_account, url_of, user_name

pytestmark = pytest.mark.mysql_family
ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")

REQUEUE = """
from deadletters.requeue import requeue
class Operator:
    def get_username(self): return "olga"
    def has_perm(self, permission): return True
print(requeue([{id}], by=Operator(), reason="mended")[0])
"""


@pytest.fixture
def roles_urls(granted: None) -> dict[str, str]:
    """One URL for each process; the common DATABASE_URL is wrong."""
    host = database_url().partition("@")[2]
    return {
        "DATABASE_URL": f"mysql://hub_roles_nobody:wrong@{host}",
        "WEBHOOKHUB_ROUTER_DATABASE_URL": url_of("router_worker"),
        "WEBHOOKHUB_ORCHESTRATOR_DATABASE_URL": url_of("saga_orchestrator"),
        "WEBHOOKHUB_WORKER_DATABASE_URL": url_of("worker"),
        "WEBHOOKHUB_CLEANER_DATABASE_URL": url_of("lease_cleaner"),
        "WEBHOOKHUB_WORKFLOWS_DATABASE_URL": url_of("workflow_tracker"),
        "WEBHOOKHUB_WEB_DATABASE_URL": url_of("console"),
        "WEBHOOKHUB_INGEST_DATABASE_URL": url_of("event_ingest_writer"),
    }


class Browser:
    """A person at the console, over real HTTP."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._session = requests.Session()
        self._session.trust_env = False

    def responds(self) -> bool:
        try:
            return self._session.get(f"{self._address}/admin/login/", timeout=5).ok
        except (requests.ConnectionError, requests.Timeout):
            return False

    def page(self, path: str) -> str:
        answer = self._session.get(self._address + path, timeout=10)
        assert answer.status_code == 200, answer.text[:2000]
        return answer.text

    def post(self, path: str, **fields: str) -> str:
        token = self._session.cookies.get("csrftoken")
        data = {**fields, "csrfmiddlewaretoken": token}
        answer = self._session.post(self._address + path, data=data, timeout=10)
        assert answer.status_code == 200, answer.text[:2000]
        return answer.text

    def log_in(self, name: str, password: str) -> None:
        self.page("/admin/login/")
        page = self.post("/admin/login/?next=/admin/", username=name, password=password)
        assert "Log out" in page


def publish(processes: Processes, event_type: str, external_id: str) -> dict[str, object]:
    command = processes.start(
        "publish_event",
        event_type,
        '{"n": 1}',
        "--external-id",
        external_id,
        "--json",
        DATABASE_URL=url_of("event_ingest_writer"),
    )
    assert command.wait() == 0, command.errors
    result: dict[str, object] = json.loads(command.output)
    return result


def statuses(event_type: str) -> list[tuple[int, str, int]]:
    rows = Saga.objects.filter(event__event_type=event_type).order_by("generation")
    return list(rows.values_list("generation", "status", "attempt_count"))


def check_no_refusal(running: Running) -> None:
    assert "denied" not in running.errors
    assert running.facts("process_failed") == []


def check_each_step_has_a_connection_of_its_own_user() -> None:
    """In one process. Each user may do only its own work: a statement of another step would be refused."""
    [pid] = set(Process.objects.values_list("pid", flat=True))
    assert pid
    roles = ("router_worker", "saga_orchestrator", "worker", "lease_cleaner", "workflow_tracker")
    with connection.cursor() as cursor:
        cursor.execute("SELECT user, COUNT(*) FROM information_schema.processlist GROUP BY user")
        connected = dict(cursor.fetchall())
    assert {role: connected.get(user_name(role)) for role in roles} == dict.fromkeys(roles, 1)


@pytest.mark.requirement("R2-4.3b")
@pytest.mark.requirement("R3-4.1a", "R3-4.2b")
def test_the_whole_pipeline_runs_with_one_database_user_for_each_role(
    processes: Processes, endpoint: HttpsEndpoint, roles_urls: dict[str, str]
):
    port = free_port()
    ill = {"/broken", "/late"}

    def answer(request: Received) -> Reply:
        if request.path == "/flaky" and request.attempt < 3:
            return Reply(503)
        return Reply(500 if request.path in ill else 200)

    endpoint.respond = answer
    # The product's password hasher, not the tests' quick one.
    olaf = User.objects.create(username="olaf", password=PBKDF2PasswordHasher().encode(PASSWORD, "salt"), is_staff=True)
    olaf.groups.add(Group.objects.get(name="operations"))
    hub = processes.start("run_hub", "--web", f"127.0.0.1:{port}", WEBHOOKHUB_MAX_RETRY_LIMIT="3", **roles_urls)
    console = Browser(f"http://127.0.0.1:{port}")
    until(console.responds, "the console answers")
    until(lambda: Process.objects.count() == 5, "all loops register")
    check_each_step_has_a_connection_of_its_own_user()

    # The console adds a subscription and has it verified.
    console.log_in("olaf", PASSWORD)
    for path in ("/flaky", "/broken", "/late"):
        event_type = f"order{path.replace('/', '.')}"
        added = console.post(
            "/admin/subscriptions/subscription/add/",
            event_type=event_type,
            callback_url=endpoint.url(path),
            active="on",
            signing_scheme="v1",
        )
        assert "secret" in added.lower()
        pk = Subscription.objects.get(event_type=event_type).pk
        assert "Verified" in console.post(f"/admin/subscriptions/subscription/{pk}/verify/")

    # A producer appends, twice.
    assert publish(processes, "order.flaky", "1")["created"] is True
    assert publish(processes, "order.flaky", "1")["created"] is False
    intake.publish("order.broken", {"n": 2})
    intake.publish("order.late", {"n": 3})

    # Retries, and deliveries that fail for good.
    until(lambda: statuses("order.flaky") == [(0, "Completed", 3)], "the flaky one is delivered")
    until(lambda: statuses("order.broken") == [(0, "DeadLettered", 3)], "the broken one is dead")
    until(lambda: statuses("order.late") == [(0, "DeadLettered", 3)], "the late one is dead")
    assert DeadLetter.objects.count() == 2
    assert not RoutingInbox.objects.exists()

    # Repaired: requeued in the console and by an operator.
    ill.clear()
    broken = DeadLetter.objects.get(event__event_type="order.broken")
    late = DeadLetter.objects.get(event__event_type="order.late")
    page = console.post("/admin/deadletters/deadletter/requeue/", ids=str(broken.pk), reason="mended")
    assert "Requeued: dead letter" in page
    code = REQUEUE.format(id=late.pk)
    operator = processes.start("shell", "--command", code, DATABASE_URL=url_of("dead_letter_operator"))
    assert operator.wait() == 0, operator.errors
    assert "created=True" in operator.output
    until(lambda: statuses("order.broken") == [(0, "DeadLettered", 3), (1, "Completed", 1)], "delivered again")
    until(lambda: statuses("order.late") == [(0, "DeadLettered", 3), (1, "Completed", 1)], "delivered again")
    assert sorted(Requeue.objects.values_list("requested_by", flat=True)) == ["olaf", "olga"]
    until(lambda: not Job.objects.filter(settled_at__isnull=True).exists(), "all results are settled")
    assert Event.objects.count() == 3

    for path in ("events/event", "sagas/saga", "jobs/job", "deadletters/deadletter", "webhookhub/process"):
        assert "olaf" in console.page(f"/admin/{path}/")
    assert hub.stop() == 0
    assert not Process.objects.exists()
    check_no_refusal(hub)


@pytest.mark.requirement("R2-2.4c")
def test_a_lease_whose_worker_was_killed_is_reset_by_a_cleaner_with_its_own_user(
    processes: Processes, endpoint: HttpsEndpoint, roles_urls: dict[str, str]
):
    SubscriptionFactory(callback_url=endpoint.url())
    intake.publish("order.created", {"n": 1})
    Router().route(10)
    dispatch(10)
    asked = threading.Event()
    endpoint.respond = lambda request: Reply(before=asked.set) if asked.is_set() else Reply(before=killed)
    worker = roles_urls["WEBHOOKHUB_WORKER_DATABASE_URL"]
    victim = processes.start("run_worker", DATABASE_URL=worker)

    def killed() -> None:
        asked.set()
        victim.kill()

    # It also removes the row of the killed process.
    cleaner = processes.start(
        "run_cleaner", DATABASE_URL=roles_urls["WEBHOOKHUB_CLEANER_DATABASE_URL"], WEBHOOKHUB_PROCESS_EXPIRY="1"
    )
    endpoint.wait_for(1)
    victim.wait()
    survivor = processes.start("run_worker", DATABASE_URL=worker)

    until(lambda: Job.objects.get().status == "Completed", "delivered by the next worker")
    assert Job.objects.get().lease_resets == 1
    assert len(endpoint.received) == 2
    cleaner.wait_for("process_expired")
    for running in (cleaner, survivor):
        assert running.stop() == 0
        check_no_refusal(running)


@pytest.mark.requirement("R5-3.5a")
def test_workflows_are_tracked_and_timed_out_with_their_own_user(processes: Processes, granted: None):
    own = url_of("workflow_tracker")
    assert processes.start("run_workflows", "--once", DATABASE_URL=own).wait() == 0
    for said in happy(ORDER):
        tell(ORDER, said, "done")
    for said in happy(ORDER)[:2]:
        told_before(ORDER, said, "silent", timedelta(minutes=11))

    tracker = processes.start("run_workflows", DATABASE_URL=own)
    until(
        lambda: set(Instance.objects.values_list("status", flat=True)) == {"COMPLETED", "COMPENSATING"}, "both move on"
    )

    assert [kind for kind, _ in published("silent")] == ["saga.timed_out", *["saga.compensation_requested"] * 2]
    assert tracker.stop() == 0
    check_no_refusal(tracker)


@pytest.mark.parametrize(
    ("command", "role", "denied"),
    [
        ("run_router", "event_ingest_writer", "django_migrations"),
        ("run_orchestrator", "router_worker", "webhook_delivery_jobs"),
        ("run_worker", "auditor", "hub_processes"),
    ],
)
def test_a_process_with_a_wrong_user_names_the_missing_privilege_in_one_line(
    processes: Processes, endpoint: HttpsEndpoint, granted: None, command: str, role: str, denied: str
):
    SubscriptionFactory(callback_url=endpoint.url())
    intake.publish("order.created", {"n": 1})

    refused = processes.start(command, DATABASE_URL=url_of(role))

    assert refused.wait() == 78
    [line] = [line for line in refused.errors.splitlines() if "CommandError" in line]
    assert re.match(rf"CommandError: The database user of this \w+ may not do its work: .*denied.*{denied}", line)
    assert line.endswith("Grant it its role: manage.py grant_roles.")
    assert "Traceback" not in refused.errors
    assert refused.facts("process_failed") == []
    assert not Saga.objects.exists()
    assert RoutingInbox.objects.count() == 1
    assert not Process.objects.exists()


def test_a_hub_whose_worker_loses_a_grant_ends_with_one_clear_line(
    processes: Processes, endpoint: HttpsEndpoint, roles_urls: dict[str, str]
):
    SubscriptionFactory(callback_url=endpoint.url())
    others = ("--routers=0", "--orchestrators=0", "--cleaners=0", "--workflows=0")
    hub = processes.start("run_hub", *others, **roles_urls)
    until(lambda: Process.objects.count() == 1, "the worker registers")
    jobs = f"`{connection.settings_dict['NAME']}`.`webhook_delivery_jobs`"
    execute(f"REVOKE UPDATE (`lease_token`) ON {jobs} FROM {role_account('worker')}")
    try:
        intake.publish("order.created", {"n": 1})
        Router().route(10)
        dispatch(10)

        assert hub.wait() == 78
    finally:
        grant_roles()
    assert hub.errors.count("may not do its work") == 1
    assert "column 'lease_token'" in hub.errors
    assert "Traceback" not in hub.errors
    assert "The hub cannot run like this; the lines above say why." in hub.errors


def test_an_auditor_audits(processes: Processes, endpoint: HttpsEndpoint, granted: None):
    SubscriptionFactory(callback_url=endpoint.url())
    intake.publish("order.created", {"n": 1})

    audit = processes.start("audit", "--json", DATABASE_URL=url_of("auditor"))

    assert audit.wait() == 0, audit.output + audit.errors
    checks = {check["name"]: check for check in json.loads(audit.output)["checks"]}
    assert checks["keys"]["rows"] > 20
    assert {name for name, check in checks.items() if check["found"]} <= {"triggers-seen", "process-kinds"}
