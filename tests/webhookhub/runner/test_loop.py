"""Several steps in one loop: work is handed on at once, and a step that fails, hangs or waits stops only itself."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections

from events.intake import NewEvent, publish, publish_many
from events.models import RoutingInbox
from jobs.models import Job
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.conf import KINDS
from webhookhub.db import vendors
from webhookhub.db.exists import Condition
from webhookhub.db.retry import in_transaction
from webhookhub.models import Process
from webhookhub.runner import backoff, managed_step, notifier
from webhookhub.runner.command import LoopCommand, run_loop
from webhookhub.runner.database import Database, of_kinds
from webhookhub.runner.loop import Loop
from webhookhub.runner.managed_step import ManagedStep
from webhookhub.runner.notifier import notify
from webhookhub.runner.step import CannotStart, Step

pytestmark = [pytest.mark.every_engine, pytest.mark.timeout(90), pytest.mark.usefixtures("committed")]

OFTEN = 0.02
NEVER = 3600.0
# Enough for a busy machine.
MARGIN_SECONDS = 5.0


@pytest.fixture
def database() -> Iterator[Database]:
    """A connection of its own: a loop changes its time-outs."""
    usual, own = connections[DEFAULT_DB_ALIAS], connection.copy()
    yield Database(own)
    connections[DEFAULT_DB_ALIAS] = usual
    own.close()


@pytest.fixture
def one_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps with the interval NEVER poll once, when they start."""
    monkeypatch.setattr(backoff, "SHORTEST_SECONDS", NEVER)


class Recording(Step):
    """Does what a test asks for, and records its calls."""

    def __init__(self, work: Callable[[], int] = lambda: 0) -> None:
        self.work = work
        self.ran_at: list[float] = []
        self.hints: list[tuple[str, list[int]]] = []
        self.finished = 0
        self.closed = 0

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        self.ran_at.append(time.monotonic())
        return self.work()

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        self.hints.append((topic, list(ids)))

    def finish(self, batch_size: int) -> None:
        self.finished += 1

    def close(self) -> None:
        self.closed += 1


def stop_when(condition: Callable[[], Any]) -> Callable[[], int]:
    """Work that stops the process when the condition holds."""
    until = time.monotonic() + 60

    def work() -> int:
        if condition() or time.monotonic() > until:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0

    return work


def managed(
    database: Database, steps: dict[str, Step | Callable[[str], Step]], interval: float = OFTEN
) -> list[ManagedStep]:
    def make(step: Step | Callable[[str], Step]) -> Callable[[str], Step]:
        return step if callable(step) else lambda name: step

    return [ManagedStep(kind, make(step), database, interval) for kind, step in steps.items()]


def logged(stream: io.StringIO, name: str) -> list[dict[str, Any]]:
    return [fact for line in stream.getvalue().splitlines() if (fact := json.loads(line))["event"] == name]


def test_a_step_that_always_raises_does_not_stop_the_others(
    database: Database, log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(managed_step, "FIRST_PAUSE_SECONDS", 0.05)
    created: list[Recording] = []
    rows: list[str] = []

    def fail() -> int:
        raise RuntimeError("broken")

    def make_failing(name: str) -> Step:
        rows.extend(Process.objects.filter(name=name).values_list("kind", flat=True))
        created.append(Recording(fail))
        return created[-1]

    other = Recording(stop_when(lambda: len(created) == 4))
    run_loop(Loop(managed(database, {"router": make_failing, "worker": other}), 10, isolated=True))

    assert [step.closed for step in created] == [1, 1, 1, 1]
    assert rows == ["router"] * 4
    assert other.closed == 1
    assert len(other.ran_at) >= 4
    failures = logged(log_stream, "process_failed")
    assert {(fact["kind"], fact["error"]) for fact in failures} == {("router", "broken")}
    assert [fact["restart_in_seconds"] for fact in failures] == [0.05, 0.1, 0.2, 0.4]
    assert "RuntimeError: broken" in failures[0]["exception"]
    assert len(logged(log_stream, "process_stopped")) == 1, "only one step was running at the end"
    assert not Process.objects.exists()


def test_a_failed_step_sends_no_heartbeats(database: Database):
    def fail() -> int:
        raise RuntimeError("broken")

    kinds: list[list[str]] = []

    def look() -> bool:
        kinds.append(list(Process.objects.values_list("kind", flat=True)))
        return len(kinds) >= 3

    steps = managed(database, {"router": Recording(fail), "worker": Recording(stop_when(look))})
    run_loop(Loop(steps, 10, isolated=True))

    assert len(kinds) >= 3  # the step may run once more before the signal arrives
    assert all(found == ["worker"] for found in kinds)


def test_an_error_ends_a_process_that_does_not_isolate_its_steps(database: Database):
    def fail() -> int:
        raise RuntimeError("broken")

    with pytest.raises(CommandError, match="RuntimeError: broken") as raised:
        run_loop(Loop(managed(database, {"router": Recording(fail)}), 10))
    assert raised.value.returncode == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OperationalError(1142, "SELECT command denied"), "The database user of this worker may not do its work"),
        (OperationalError(1045, "Access denied"), "The database refused"),
        (CannotStart("A definition is not valid."), "A definition is not valid"),
    ],
)
def test_a_misconfigured_step_ends_the_process_with_78(database: Database, error: Exception, message: str):
    def fail() -> int:
        raise error

    others = Recording()
    steps = managed(database, {"router": others, "worker": Recording(fail)})
    with pytest.raises(CommandError, match=message) as raised:
        run_loop(Loop(steps, 10, isolated=True))

    assert raised.value.returncode == os.EX_CONFIG
    assert others.closed == 1
    assert not Process.objects.exists()


def test_a_conflict_pauses_only_its_step(database: Database, log_stream: io.StringIO):
    def conflict() -> int:
        raise OperationalError(1205, "Lock wait timeout exceeded")

    waiting = Recording(conflict)
    other = Recording(stop_when(lambda: len(waiting.ran_at) == 2))
    run_loop(Loop(managed(database, {"router": waiting, "worker": other}), 10, isolated=True))

    assert waiting.closed == 1
    assert len(other.ran_at) > 4
    assert logged(log_stream, "process_failed") == []
    assert {fact["process"].partition("@")[0] for fact in logged(log_stream, "database_conflict")} == {"router"}


def test_a_lost_database_pauses_all_its_steps_and_their_open_requests_are_attended(
    database: Database, log_stream: io.StringIO
):
    class Open(Recording):
        polls = 0

        def pending(self) -> str:
            return "1 open" if self.polls < 3 else ""

        def poll(self, seconds: float) -> None:
            self.polls += 1

    lost = iter([True, True])

    def lose() -> int:
        if next(lost, False):
            raise OperationalError(2006, "gone")
        return 0

    worker, router = Open(), Recording(lose)
    stopper = Recording(stop_when(lambda: len(router.ran_at) >= 3))
    steps = managed(database, {"worker": worker, "router": router, "cleaner": stopper})
    run_loop(Loop(steps, 10, isolated=True))

    first = router.ran_at[0]
    assert worker.polls >= 3
    assert not [at for at in worker.ran_at if first < at < first + 0.45], "it waits for the database, too"
    assert len(logged(log_stream, "database_lost")) == 2
    assert logged(log_stream, "database_reconnected")[-1]["after_attempts"] >= 1


@pytest.mark.usefixtures("one_poll")
def test_a_step_hands_its_work_to_the_next_without_waiting(database: Database):
    handed_on: list[float] = []

    def hand_on() -> int:
        handed_on.append(time.monotonic())
        notify("orchestrator", "deliveries", [1, 2])
        return 2

    def finish() -> int:
        if ("deliveries", [1, 2]) in orchestrator.hints and ("results", [3]) in orchestrator.hints:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            notify("worker", "attempts", [3])
        return 0

    def send() -> int:
        if ("attempts", [3]) in worker.hints:
            notify("orchestrator", "results", [3])
        return 0

    orchestrator, worker = Recording(finish), Recording(send)
    steps = managed(database, {"orchestrator": orchestrator, "worker": worker, "router": Recording(hand_on)}, NEVER)
    run_loop(Loop(steps, 10, isolated=True))

    assert orchestrator.hints == [("deliveries", [1, 2]), ("results", [3])]
    assert worker.hints == [("attempts", [3])]
    assert orchestrator.ran_at[2] - handed_on[0] < MARGIN_SECONDS


@pytest.mark.usefixtures("one_poll")
def test_a_full_batch_is_followed_by_the_next_one_after_the_other_steps(database: Database):
    order: list[str] = []
    batches = iter([10, 10, 3])

    def busy() -> int:
        order.append("router")
        found = next(batches)
        if found < 10:
            os.kill(os.getpid(), signal.SIGTERM)
        return found

    def other() -> int:
        order.append("worker")
        return 0

    steps = managed(database, {"router": Recording(busy), "worker": Recording(other)}, NEVER)
    run_loop(Loop(steps, 10, isolated=True))

    assert order == ["router", "worker", "router", "router"]


class Idle(Recording):
    def conditions(self) -> list[Condition]:
        return [Condition(RoutingInbox)]


def test_idle_steps_poll_with_one_query(database: Database):
    idle = {"router": Idle(), "orchestrator": Idle(), "worker": Idle()}
    polls: list[int] = []

    def found() -> bool:
        polls.append(len(idle["worker"].ran_at))
        if len(polls) == 20:
            publish("order.created", {})
        return len(idle["worker"].ran_at) > 1

    steps = managed(database, {**idle, "cleaner": Recording(stop_when(found))})
    run_loop(Loop(steps, 10, isolated=True))

    assert polls[:20] == [1] * 20, "after its first poll, the step did not run until there was an event"
    assert all(len(step.ran_at) > 1 for step in idle.values())


def test_an_idle_step_whose_poll_becomes_due_during_a_turn_polls_with_the_others(database: Database):
    """A turn can take longer than the interval, because of another step or a busy machine."""
    idle = Idle()
    polls: list[int] = []

    def long_enough() -> bool:
        time.sleep(2 * OFTEN)
        polls.append(len(idle.ran_at))
        if len(polls) == 10:
            publish("order.created", {})
        return len(idle.ran_at) > 1

    slow = Recording(stop_when(long_enough))
    run_loop(Loop(managed(database, {"cleaner": slow, "worker": idle}), 10, isolated=True))

    assert polls[:10] == [0, *[1] * 9], "it started after the first step, and ran again when there was an event"
    assert len(idle.ran_at) > 1


@pytest.mark.usefixtures("one_poll")
def test_the_drain_settles_what_the_open_requests_report(database: Database):
    class Open(Recording):
        is_open = True

        def pending(self) -> str:
            return "1 open" if self.is_open else ""

        def idle_for(self) -> float:
            return OFTEN

        def finish(self, batch_size: int) -> None:
            self.is_open = False
            notify("orchestrator", "results", [7])

    worker, orchestrator = Open(), Recording()
    worker.work = stop_when(lambda: len(worker.ran_at) == 2)
    run_loop(Loop(managed(database, {"orchestrator": orchestrator, "worker": worker}, NEVER), 10, isolated=True))

    assert orchestrator.hints[-1] == ("results", [7])
    assert orchestrator.finished == 1, "once, for the result"
    assert len(orchestrator.ran_at) == 1, "only its first poll: the drain starts no new work"


@pytest.mark.mysql_family
@pytest.mark.parametrize("hang", ["statement", "lock"])
def test_a_statement_that_hangs_stops_the_others_no_longer_than_its_bound(
    database: Database, log_stream: io.StringIO, hang: str
):
    bound = 1
    database.bound(2 * bound, bound)
    SubscriptionFactory.create()
    holder = connection.copy()
    holder.set_autocommit(False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT id FROM subscriptions FOR UPDATE")

    def sleep() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT SLEEP(60)")
        return 0

    def wait() -> int:
        def lock() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM subscriptions FOR UPDATE")

        in_transaction(lock)
        return 0

    hanging = Recording(sleep if hang == "statement" else wait)
    other = Recording(stop_when(lambda: len(hanging.ran_at) == 3))
    try:
        run_loop(Loop(managed(database, {"router": hanging, "worker": other}), 10, isolated=True))
    finally:
        holder.rollback()
        holder.close()

    gaps = [later - earlier for earlier, later in zip(other.ran_at, other.ran_at[1:], strict=False)]
    assert max(gaps) < 3 * bound + MARGIN_SECONDS
    assert logged(log_stream, "process_failed") == []
    assert logged(log_stream, "database_lost" if hang == "statement" else "database_conflict")


def test_without_any_notification_polling_delivers_everything(
    database: Database, endpoint: HttpsEndpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(notifier, "_notify", lambda kind, topic, ids: None)
    SubscriptionFactory.create(callback_url=endpoint.url())
    publish_many([NewEvent("order.created", {"number": number}) for number in range(20)])
    steps = [ManagedStep(kind, command(kind).make_step, database, OFTEN) for kind in KINDS]
    steps.append(ManagedStep("stopper", lambda name: Recording(stop_when(all_settled)), database, OFTEN))
    run_loop(Loop(steps, 7, isolated=True))

    assert Saga.objects.filter(status="Completed").count() == 20
    assert Job.objects.filter(status="Completed", settled_at__isnull=False).count() == 20
    assert len(endpoint.received) == 20


@pytest.mark.usefixtures("one_poll")
def test_notifications_alone_deliver_everything(database: Database, endpoint: HttpsEndpoint):
    SubscriptionFactory.create(callback_url=endpoint.url())
    steps = [ManagedStep(kind, command(kind).make_step, database, NEVER) for kind in KINDS]
    published = iter([True])

    def settled() -> bool:
        if next(published, False):
            publish_many([NewEvent("order.created", {"number": number}) for number in range(20)])
        return all_settled()

    steps.append(ManagedStep("stopper", lambda name: Recording(stop_when(settled)), database, OFTEN))
    run_loop(Loop(steps, 7, isolated=True))

    assert Saga.objects.filter(status="Completed").count() == 20
    assert len(endpoint.received) == 20


def all_settled() -> bool:
    return Saga.objects.filter(status="Completed").count() == 20


def command(kind: str) -> LoopCommand:
    loaded = load_command_class(str(get_commands()[f"run_{kind}"]), f"run_{kind}")
    assert isinstance(loaded, LoopCommand)
    return loaded


@pytest.mark.mysql_family
def test_each_step_uses_the_connection_of_its_kind():
    """The users differ; statements that are compiled once are executed with the right one."""
    from tests.processes.support import database_url

    usual = connections[DEFAULT_DB_ALIAS]
    databases = of_kinds({"worker": database_url()}, ["router", "worker", "cleaner"])
    seen: dict[str, list[int]] = {"router": [], "worker": [], "cleaner": []}

    def look(kind: str) -> Callable[[], int]:
        def work() -> int:
            with connection.cursor() as cursor:
                cursor.execute("SELECT CONNECTION_ID()")
                seen[kind].append(cursor.fetchone()[0])
            return stop_when(lambda: all(len(ids) > 2 for ids in seen.values()))()

        return work

    try:
        steps = [
            ManagedStep(kind, lambda name, kind=kind: Recording(look(kind)), databases[kind], OFTEN)  # type: ignore[misc]
            for kind in seen
        ]
        run_loop(Loop(steps, 10, isolated=True))
    finally:
        connections[DEFAULT_DB_ALIAS] = usual
    assert [len(set(ids)) for ids in seen.values()] == [1, 1, 1]
    assert set(seen["router"]) == set(seen["cleaner"]) != set(seen["worker"])
    assert vendors.is_server(connection)
