"""Names are resolved beside the transfers: a lookup that hangs does not delay the others."""

from __future__ import annotations

import io
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.worker import Worker
from tests.factories import JobFactory
from tests.processes.support import until
from tests.support.name_server import NameServer, look_up
from tests.support.tls import Authority
from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint, Reply
from tools.support.raw_endpoint import RawEndpoint
from webhookhub.egress import dns
from webhookhub.egress.dns import Resolver, resolve
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.hosts import Host
from webhookhub.egress.messages import Response


class NameService:
    """Everything leads to loopback; names that start with `hanging` hang until they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = threading.Event()
        # Names with these beginnings hang, do not exist, or cannot be looked up now.
        self.hanging, self.unknown, self.failing = {"hanging"}, {"unknown"}, {"failing"}

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith(tuple(self.hanging)):
            self.let_go.wait(60)
        if host.startswith(tuple(self.unknown)):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if host.startswith(tuple(self.failing)):
            raise socket.gaierror(socket.EAI_AGAIN, "the name server does not respond")
        return ["127.0.0.1"]


@pytest.fixture
def service() -> Iterator[NameService]:
    service = NameService()
    yield service
    service.let_go.set()


@pytest.fixture
def named_endpoint(tmp_path: Path, hub_settings) -> Iterator[HttpsEndpoint]:
    """An endpoint with a certificate for all names under example."""
    authority = Authority(tmp_path)
    hub_settings(ca_bundle=str(authority.file))
    with HttpsEndpoint(authority.certificate("*.hooks.example")) as running:
        yield running


def url(endpoint: HttpsEndpoint, host: str, path: str = "/") -> str:
    return f"https://{host}:{endpoint.port}{path}"


def test_a_hundred_requests_for_a_hanging_name_use_one_thread_and_others_continue(
    endpoint: HttpsEndpoint, service: NameService, hub_settings
):
    hub_settings(connect_timeout=timedelta(seconds=30))
    engine: Engine[str] = Engine(200, resolver=Resolver(service))
    for number in range(100):
        engine.submit(f"hanging {number}", post("https://hanging.example/"))
    engine.submit("healthy", post(url(endpoint, "hooks.localhost")))

    responses = collect(engine, 1)
    engine.close()

    assert {tag: response.error_code for tag, response in responses.items()} == {"healthy": None}
    assert service.asked.count("hanging.example") == 1


def test_a_hanging_name_is_a_dns_error_within_the_connect_timeout(service: NameService, hub_settings):
    hub_settings(connect_timeout=timedelta(seconds=0.3))
    began = time.monotonic()

    response = send(post("https://hanging.example/"), resolver=Resolver(service))

    assert response.error_code == "dns_error"
    assert 300 <= response.duration_ms < 30_000
    assert time.monotonic() - began < 30


def test_an_engine_closes_while_a_name_hangs(service: NameService):
    engine: Engine[int] = Engine(1, resolver=Resolver(service))
    engine.submit(1, post("https://hanging.example/"))
    engine.poll(0.01)
    began = time.monotonic()

    engine.close()

    assert time.monotonic() - began < 30


def test_the_lookup_counts_towards_the_timeout_of_the_request(trusted: Path, service: NameService, hub_settings):
    """The name hangs, then the endpoint never responds: together no longer than one request may take."""
    hub_settings(request_timeout=timedelta(seconds=3), connect_timeout=timedelta(seconds=2.9))
    threading.Timer(2, service.let_go.set).start()
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        port = int(endpoint.url.split(":")[2].split("/")[0])
        response = send(post(f"https://hanging.example:{port}/"), resolver=Resolver(service))

    assert response.duration_ms < 4500


def test_a_name_is_resolved_once_while_it_is_fresh_and_again_after(endpoint: HttpsEndpoint, service: NameService):
    for fresh_seconds, times in ((60.0, 1), (0.0, 3)):
        service.asked.clear()
        engine: Engine[int] = Engine(1, resolver=Resolver(service, fresh_seconds))
        for number in range(3):
            engine.submit(number, post(url(endpoint, "hooks.localhost")))
            assert collect(engine, 1)[number].error_code is None
        engine.close()
        assert service.asked == ["hooks.localhost"] * times


def test_a_failed_lookup_is_repeated(service: NameService):
    found = Resolver(service)
    for _ in range(2):
        assert send(post("https://unknown.example/"), resolver=found).error_code == "dns_error"

    assert service.asked == ["unknown.example"] * 2


def test_lookups_beyond_the_thread_limit_wait(service: NameService, monkeypatch):
    monkeypatch.setattr(dns, "MAX_THREADS", 2)
    found = Resolver(service)
    hanging = [found.lookup(f"hanging{number}.example") for number in range(2)]
    waiting = found.lookup("healthy.example")

    assert not waiting.finished.wait(0.1)
    service.let_go.set()

    assert waiting.finished.wait(10)
    assert all(lookup.finished.wait(10) for lookup in hanging)
    assert waiting.answer is not None
    assert waiting.answer.addresses == ["127.0.0.1"]


def test_the_cache_of_names_is_bounded(service: NameService, monkeypatch):
    monkeypatch.setattr(dns, "MAX_CACHED", 3)
    found = Resolver(service)

    first = found.lookup("0.example")
    for number in range(1, 4):
        found.lookup(f"{number}.example").finished.wait(10)

    assert found.lookup("3.example") is found.lookup("3.example")
    assert found.lookup("0.example") is not first


def test_localhost_resolves_and_invalid_names_do_not():
    assert "127.0.0.1" in resolve("localhost")
    assert "127.0.0.1" in resolve("anything.localhost")
    with pytest.raises(OSError, match=r"not known|resolution|No address"):
        resolve("nowhere.invalid")


def test_a_name_that_cannot_be_resolved_has_no_addresses():
    found = Resolver().lookup(f"{'a' * 70}.example")

    assert found.finished.wait(10)
    assert found.denied
    assert found.answer is None


NAME = "a.hooks.example"


def attempt(engine: Engine[int], endpoint: HttpsEndpoint, host: str = NAME) -> Response | None:
    """The response to one request; None if it was withdrawn."""
    engine.submit(1, post(url(endpoint, host)))
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for _, response in engine.poll(0.1):
            return response
        if engine.withdraw(60):
            return None
    raise AssertionError("neither a response nor a withdrawal")


def code(response: Response | None) -> str | None:
    return "withdrawn" if response is None else response.error_code


@pytest.fixture
def engine(service: NameService, named_endpoint: HttpsEndpoint) -> Iterator[Engine[int]]:
    """Looks each name up for every request."""
    engine: Engine[int] = Engine(10, resolver=Resolver(service, fresh_seconds=0), max_lookup_seconds=15.0)
    yield engine
    engine.close()


@pytest.mark.parametrize("trouble", ["hanging", "failing"])
def test_the_last_good_answer_serves_while_a_lookup_is_late_or_fails(
    engine: Engine[int], service: NameService, named_endpoint: HttpsEndpoint, trouble: str, monkeypatch
):
    monkeypatch.setattr(dns, "LATE_SECONDS", 0.2)
    assert code(attempt(engine, named_endpoint)) is None

    getattr(service, trouble).add("a.")
    responses = [attempt(engine, named_endpoint) for _ in range(3)]

    assert [code(response) for response in responses] == [None] * 3
    assert len(named_endpoint.received) == 4


def test_only_the_first_request_waits_for_a_late_lookup(
    engine: Engine[int], service: NameService, named_endpoint: HttpsEndpoint
):
    attempt(engine, named_endpoint)
    service.hanging.add("a.")
    attempt(engine, named_endpoint)
    began = time.monotonic()

    for _ in range(5):
        assert code(attempt(engine, named_endpoint)) is None

    assert time.monotonic() - began < 3 * dns.LATE_SECONDS
    assert service.asked.count(NAME) == 2


def test_an_old_answer_is_not_used_for_ever(service: NameService, named_endpoint: HttpsEndpoint, hub_settings):
    hub_settings(dns_max_age=timedelta(seconds=0.3))
    engine: Engine[int] = Engine(10, resolver=Resolver(service, fresh_seconds=0), max_lookup_seconds=15.0)
    assert code(attempt(engine, named_endpoint)) is None
    service.failing.add("a.")
    good_until = time.monotonic() + 0.3
    while time.monotonic() < good_until:
        engine.poll(0.05)

    assert code(attempt(engine, named_endpoint)) == "withdrawn"
    engine.close()
    assert len(named_endpoint.received) == 1


def test_a_name_that_no_longer_exists_is_a_dns_error_at_once(
    engine: Engine[int], service: NameService, named_endpoint: HttpsEndpoint
):
    assert code(attempt(engine, named_endpoint)) is None
    service.unknown.add("a.")

    assert code(attempt(engine, named_endpoint)) == "dns_error"
    service.unknown.discard("a.")
    assert code(attempt(engine, named_endpoint)) is None


def test_the_last_good_addresses_are_checked_like_any_other(
    engine: Engine[int], service: NameService, named_endpoint: HttpsEndpoint, hub_settings
):
    hub_settings(allowed_networks=())
    assert code(attempt(engine, named_endpoint)) == "blocked_address"
    service.failing.add("a.")

    assert code(attempt(engine, named_endpoint)) == "blocked_address"
    assert not named_endpoint.received


def test_a_fresh_name_is_looked_up_in_the_background(service: NameService, named_endpoint: HttpsEndpoint, monkeypatch):
    monkeypatch.setattr(dns, "LATE_SECONDS", 15.0)
    resolver = Resolver(service, fresh_seconds=60)
    engine: Engine[int] = Engine(10, resolver=resolver)
    assert code(attempt(engine, named_endpoint)) is None
    resolver.fresh_seconds = 0.0  # older than half of the time
    service.hanging.add("a.")
    assert resolver.lookup(NAME).answer is None
    resolver.fresh_seconds = 60

    response = attempt(engine, named_endpoint)
    engine.close()

    assert response is not None
    assert response.error_code is None
    until(lambda: len(service.asked) == 2, "the thread of the second lookup has started")
    assert response.duration_ms < dns.LATE_SECONDS * 1000


@pytest.mark.parametrize("trouble", ["hanging", "failing"])
def test_a_failed_lookup_is_a_dns_error_only_if_other_names_get_answers(
    service: NameService, named_endpoint: HttpsEndpoint, trouble: str, hub_settings
):
    """Otherwise the hub's own resolver may be what fails, and no attempt is used up."""
    hub_settings(connect_timeout=timedelta(seconds=0.05))
    resolver = Resolver(service)
    engine: Engine[int] = Engine(10, resolver=resolver)

    assert code(attempt(engine, named_endpoint, f"{trouble}.example")) == "withdrawn"
    assert not engine.accepts(f"https://{trouble}.example/")
    assert resolver.lookup("healthy.example").finished.wait(10)

    assert code(attempt(engine, named_endpoint, f"{trouble}.example")) == "dns_error"
    engine.close()


def test_a_late_denial_is_a_dns_error_for_the_request_that_returns(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch
):
    """Names of which each denial is late: the request is withdrawn, and must not start all over when it returns."""
    monkeypatch.setattr(dns, "LATE_SECONDS", 0.05)
    service.hanging.add("a.")
    service.unknown.add("a.")
    resolver = Resolver(service)
    engine: Engine[int] = Engine(10, resolver=resolver)
    assert code(attempt(engine, named_endpoint)) == "withdrawn"
    threading.Timer(0.2, service.let_go.set).start()
    assert resolver.lookup(NAME).finished.wait(10)

    assert engine.accepts(url(named_endpoint, NAME))
    assert code(attempt(engine, named_endpoint)) == "dns_error"
    engine.close()
    assert service.asked == [NAME]


def test_failed_lookups_are_logged_once_a_minute(service: NameService, log_stream: io.StringIO):
    resolver = Resolver(service)
    for name in ("unknown.example", "failing1.example", "failing2.example"):
        assert resolver.lookup(name).finished.wait(10)

    [line] = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert (line["event"], line["level"], line["host"]) == ("dns_lookup_failed", "warning", "failing1.example")
    assert "does not respond" in line["reason"]


def test_a_resolver_that_never_answers_is_not_excused_for_ever(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch
):
    engine: Engine[int] = Engine(10, resolver=Resolver(service))
    assert code(attempt(engine, named_endpoint, "failing.example")) == "withdrawn"

    monkeypatch.setattr(dns, "RESOLVER_FAILURE_SECONDS", 0.0)

    assert code(attempt(engine, named_endpoint, "failing.example")) == "dns_error"
    engine.close()


def test_a_request_whose_lookup_waits_for_a_thread_is_withdrawn_and_sent_later(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch
):
    monkeypatch.setattr(dns, "MAX_THREADS", 2)
    resolver = Resolver(service)
    for number in range(2):
        resolver.lookup(f"hanging{number}.example")
    engine: Engine[int] = Engine(10, resolver=resolver)

    assert code(attempt(engine, named_endpoint)) == "withdrawn"
    service.let_go.set()
    assert resolver.lookup(NAME).finished.wait(10)

    assert code(attempt(engine, named_endpoint)) is None
    engine.close()


def test_waiting_for_a_thread_does_not_count_towards_the_timeout_of_the_request(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch, hub_settings
):
    """Two seconds for the thread and two for the response: more than one request may take."""
    monkeypatch.setattr(dns, "MAX_THREADS", 1)
    hub_settings(request_timeout=timedelta(seconds=3.5), connect_timeout=timedelta(seconds=3.5))
    named_endpoint.respond = lambda request: Reply(before=lambda: time.sleep(2))
    resolver = Resolver(service)
    resolver.lookup("hanging.example")
    threading.Timer(2, service.let_go.set).start()

    assert send(post(url(named_endpoint, NAME)), resolver=resolver).error_code is None


def test_names_that_hang_again_do_not_use_the_threads_of_others(service: NameService, monkeypatch):
    monkeypatch.setattr(dns, "MAX_THREADS", 3)
    monkeypatch.setattr(dns, "MAX_LATE_THREADS", 2)
    monkeypatch.setattr(dns, "FAILED_SECONDS", 0.0)
    service.failing = {"bad"}
    resolver = Resolver(service)
    bad = [f"bad{number}.example" for number in range(5)]
    for name in bad:
        assert resolver.lookup(name).finished.wait(10)
    service.hanging = {"bad"}
    again = [resolver.lookup(name) for name in bad]

    others = [resolver.lookup(f"good{number}.example") for number in range(5)]

    assert all(other.finished.wait(10) for other in others)
    assert all(lookup.suspect and not lookup.finished.is_set() for lookup in again)
    assert sum(thread.name.startswith("lookup bad") for thread in threading.enumerate()) <= 2


HANGING = [f"hanging{number}.hooks.example" for number in range(150)]
HEALTHY = [f"healthy{number}.hooks.example" for number in range(10)]


def test_150_hanging_names_of_160_do_not_delay_the_others(service: NameService, named_endpoint: HttpsEndpoint):
    """The slowest response of each round, with and without hanging names, in turn so that both see the same load."""
    named_endpoint.respond = lambda request: Reply(before=lambda: time.sleep(0.2))
    alone: Engine[str] = Engine(250, resolver=Resolver(service))
    beside: Engine[str] = Engine(250, resolver=Resolver(service))
    baseline, measured = [], []
    for _ in range(7):
        baseline.append(slowest_response(alone, named_endpoint, []))
        measured.append(slowest_response(beside, named_endpoint, HANGING))
    alone.close()
    beside.close()

    assert not service.let_go.is_set()
    assert statistics.median(measured) <= 1.5 * statistics.median(baseline)


def slowest_response(engine: Engine[str], endpoint: HttpsEndpoint, hanging: list[str]) -> float:
    """The seconds until all healthy names have responded, which must succeed; requests for hanging ones come first."""
    started = time.monotonic()
    for host in [*hanging, *HEALTHY]:
        if engine.accepts(url(endpoint, host)):
            engine.submit(host, post(url(endpoint, host)))
    waiting = set(HEALTHY)
    while waiting:
        assert time.monotonic() < started + 20, waiting
        engine.withdraw(1.0)
        for host, response in engine.poll(0.05):
            if host in waiting:
                assert response.error_code is None
                waiting.discard(host)
    return time.monotonic() - started


@pytest.mark.django_db
def test_a_worker_keeps_delivering_and_gives_hanging_names_back_without_an_attempt(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch
):
    """Fewer slots than hanging names, whose jobs come first; no healthy attempt fails."""
    monkeypatch.setattr(dns, "SHARED", Resolver(service))
    jobs = {
        host: JobFactory.create(saga__subscription__callback_url=url(named_endpoint, host))
        for host in [*HANGING[:40], *HEALTHY]
    }
    healthy = [jobs[host].id for host in HEALTHY]
    worker = Worker("w", concurrency=30)
    try:
        until = time.monotonic() + 60
        while Job.objects.filter(id__in=healthy, status="Completed").count() < len(HEALTHY):
            assert time.monotonic() < until
            worker.turn(500)
    finally:
        worker.close()

    assert not Job.objects.filter(id__in=healthy).exclude(status="Completed").exists()
    # Given back, still waiting in the worker, or failed because the name service has answered others.
    rest = Job.objects.exclude(id__in=healthy)
    assert set(rest.values_list("error_code", flat=True)) <= {None, "dns_error"}
    assert rest.filter(status="Pending").exists()


@pytest.mark.django_db
def test_a_job_that_is_leased_and_given_back_again_and_again_is_not_logged_at_info(
    service: NameService, named_endpoint: HttpsEndpoint, monkeypatch, log_stream: io.StringIO
):
    monkeypatch.setattr(dns, "SHARED", Resolver(service))
    monkeypatch.setattr(Host, "defer_seconds", lambda host: 0.0)
    job = JobFactory.create(saga__subscription__callback_url=url(named_endpoint, "failing.hooks.example"))
    JobFactory.create(
        saga__subscription__callback_url=url(named_endpoint, "paused.example"), saga__subscription__active=False
    )
    leased = 0
    worker = Worker("w")
    try:
        while leased < 50:
            leased += worker._lease(10, poll=True)
            worker.turn(10)
        service.failing.clear()
        monkeypatch.setattr(dns, "FAILED_SECONDS", 0.0)
        until = time.monotonic() + 20
        while Job.objects.get(id=job.id).status != "Completed":
            assert time.monotonic() < until
            worker.turn(10)
    finally:
        worker.close()

    lines = [json.loads(line)["event"] for line in log_stream.getvalue().splitlines()]
    assert lines.count("job_reported") == 1
    assert lines.count("job_leased") == 1
    assert lines.count("dns_lookup_failed") == 1
    assert len(lines) <= 3


def test_a_real_name_server_whose_names_hang_delays_no_others(tmp_path: Path):
    """The system's own resolver, with 150 names that get no response and others that come after them."""
    names = [*HANGING, "unknown.hooks.example", "fail.hooks.example", *HEALTHY]
    try:
        with NameServer() as server:
            found = look_up(server, tmp_path, names)
    except OSError as error:
        pytest.skip(f"needs to replace /etc/resolv.conf for a process: {error}")

    assert {found[name] for name in HEALTHY} == {"127.0.0.1"}
    assert {found[name] for name in HANGING} == {"hanging"}
    assert (found["unknown.hooks.example"], found["fail.hooks.example"]) == ("denied", "failed")
