"""CPU, memory and ports of processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tools.bench import machine

# Two processes that use CPU and memory, and then wait.
PROGRAM = """
import os, sys, time
os.fork()
memory = bytearray(os.urandom(1024) * 1024 * 20)
until = time.process_time() + 0.3
while time.process_time() < until:
    pass
os.write(int(sys.argv[1]), b"x")
time.sleep(60)
"""


@pytest.fixture
def tree() -> Iterator[int]:
    """A process and its child, named like a command of the hub."""
    ours, theirs = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(theirs), "run_router"], pass_fds=[theirs])
    os.close(theirs)
    assert os.read(ours, 1) + os.read(ours, 1) == b"xx"
    yield process.pid
    for pid in reversed(machine.process_tree(process.pid)):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    os.close(ours)


def test_cpu_of_a_tree_includes_its_children_by_kind(tree: int):
    used = machine.tree_cpu(tree)

    assert set(used) == {"router"}
    assert 0.5 < used["router"] < 5


def test_memory_of_a_tree_includes_its_children(tree: int):
    assert machine.tree_memory_mb(tree) > 40


def test_the_process_that_listens_at_a_port_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert machine.listening_process(port) == os.getpid()
    with pytest.raises(ProcessLookupError, match=str(port)):
        machine.listening_process(port)


def test_busy_seconds_grow_with_the_work_of_this_process():
    busy, own = machine.busy_seconds(), machine.cpu_of([os.getpid()])
    while machine.cpu_of([os.getpid()]) - own < 0.2:
        sum(range(1000))

    assert machine.busy_seconds() - busy >= 0.15
