"""A running hub in its own processes: loops, web server, the test database and a real endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User

from tests.processes.support import Processes, environment, until
from tools.demo.endpoint import HttpsEndpoint, Reply
from tools.support.ports import free_port

PASSWORD = "only for tests"
START_SECONDS = 120.0
SETTINGS = {
    # The default of the tests would write twenty heartbeats a second per loop.
    "WEBHOOKHUB_HEARTBEAT": "1",
    "WEBHOOKHUB_WORKER_CONCURRENCY": "32",
    # The endpoint shares a process with the test and may respond late.
    "WEBHOOKHUB_LEASE": "40",
    "WEBHOOKHUB_REQUEST_TIMEOUT": "30",
    "WEBHOOKHUB_CONNECT_TIMEOUT": "20",
}


@dataclass(frozen=True)
class Stack:
    home: str
    endpoint: HttpsEndpoint
    # The endpoint's responses by path; the default is a success.
    answers: dict[str, Reply] = field(default_factory=dict)


@contextmanager
def running(folder: Path, certificates: tuple[Path, Path]) -> Iterator[Stack]:
    """Starts `run_hub --web` and waits until it is ready."""
    authority, server = certificates
    web = f"127.0.0.1:{free_port()}"
    processes = Processes(folder, {**environment(authority), **SETTINGS})
    with HttpsEndpoint(server) as endpoint:
        hub = processes.start("run_hub", "--web", web)
        try:
            until(lambda: is_ready(f"http://{web}"), "the hub is ready", START_SECONDS)
            stack = Stack(f"http://{web}", endpoint)
            endpoint.respond = lambda request: stack.answers.get(request.path, Reply())
            yield stack
            assert hub.stop(60) == 0
        finally:
            processes.end()


def is_ready(home: str) -> bool:
    try:
        return requests.get(f"{home}/readyz", timeout=10).status_code == 200
    except requests.RequestException:
        return False


def member(group: str) -> User:
    """A member of a group, with a password hash that the hub's processes accept: the tests use a faster hasher."""
    stored = PBKDF2PasswordHasher().encode(PASSWORD, salt="onlyfortests", iterations=1000)
    user, _ = User.objects.get_or_create(username=group, defaults={"password": stored, "is_staff": True})
    user.groups.add(Group.objects.get(name=group))
    return user
