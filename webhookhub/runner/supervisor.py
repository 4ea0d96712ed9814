"""Keeps child processes running on one machine, and stops them together.

Loops are forks of the supervisor: they share the memory of the loaded program, and start at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from webhookhub.logs import Log, log

from .signals import STOP_SIGNALS, SupervisorSignals

# A child that ends wakes the supervisor; this is only a precaution.
CHECK_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.5
LAST_PAUSE_SECONDS = 30.0
HEALTHY_SECONDS = 30.0
PR_SET_PDEATHSIG = 1
GUNICORN_BOOT_ERROR = 3  # the web server's exit code for a wrong setting


@dataclass
class Child:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | ForkedProcess | None = None
    started: float = 0.0
    failures: int = 0
    start_at: float = field(default=0.0)

    def start(self) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            env=dict(self.environment),
            # Its own group: a Ctrl-C at the terminal reaches only the supervisor, which stops each child once.
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )

    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def plan_restart(self) -> float:
        """Plans a restart, later after each quick failure; returns the pause."""
        if time.monotonic() - self.started > HEALTHY_SECONDS:
            self.failures = 0
        pause: float = min(FIRST_PAUSE_SECONDS * 2**self.failures, LAST_PAUSE_SECONDS)
        self.failures += 1
        self.process = None
        self.start_at = time.monotonic() + pause
        return pause


class ForkedChild(Child):
    """A child that shares the loaded program with the supervisor instead of loading it again."""

    def __init__(self, name: str, main: Callable[[], int]) -> None:
        """`main` returns the exit code."""
        super().__init__(name, (), {})
        self._main = main

    def start(self) -> None:
        self.started = time.monotonic()
        self.process = ForkedProcess(self._main)


class ForkedProcess:
    """A fork that runs `main`, with the part of Popen's methods that the supervisor uses."""

    def __init__(self, main: Callable[[], int]) -> None:
        parent = os.getpid()
        # Until the child has reset the handlers, a signal to it would be written to the supervisor's pipe.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _run_forked(main, parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._wait(0)

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def _wait(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def _run_forked(main: Callable[[], int], parent: int) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        os.setsid()
        die_with_parent(parent)
        code = main()
    except BaseException:  # noqa: BLE001  # nothing above it in this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Supervisor:
    def __init__(self, children: Sequence[Child], drain_seconds: float) -> None:
        self._children = children
        self._drain_seconds = drain_seconds

    def run(self) -> int:
        """Runs until a stop signal; returns 0, or the exit code of a child that is misconfigured."""
        with SupervisorSignals() as stop:
            code = 0
            while not stop.requested and not code:
                code = self._check()
                if not code:
                    stop.wait(self._next_start())
            self._stop_all(stop)
            return code

    def _check(self) -> int:
        """Starts the children that are due and plans restarts for those that ended."""
        for child in self._children:
            if child.process is None:
                if time.monotonic() >= child.start_at:
                    child.start()
                continue
            code = child.exit_code()
            if code is None:
                continue
            if code in (os.EX_CONFIG, GUNICORN_BOOT_ERROR):
                log(Log.PROCESS_FAILED, child=child.name, exit_code=code)
                child.process = None
                return os.EX_CONFIG
            pause = child.plan_restart()
            log(Log.PROCESS_RESTARTED, child=child.name, exit_code=code, in_seconds=round(pause, 1))
        return 0

    def _next_start(self) -> float:
        """Seconds until a child has to be started, or at most CHECK_SECONDS."""
        times = [child.start_at - time.monotonic() for child in self._children if child.process is None]
        return min([CHECK_SECONDS, *times])

    def _stop_all(self, stop: SupervisorSignals) -> None:
        running = [child for child in self._children if child.process and child.exit_code() is None]
        log(Log.PROCESS_DRAINING, process="hub", waits_for=", ".join(child.name for child in running) or "nothing")
        for child in running:
            _signal(child, signal.SIGTERM)
        until = time.monotonic() + self._drain_seconds
        while running and time.monotonic() < until:
            stop.wait(min(CHECK_SECONDS, until - time.monotonic()))
            running = [child for child in running if child.exit_code() is None]
        for child in running:
            log(Log.PROCESS_FAILED, child=child.name, error="did not stop in time and was killed")
            _signal(child, signal.SIGKILL)
            if child.process:
                child.process.wait()
        log(Log.PROCESS_STOPPED, process="hub")


def _signal(child: Child, signum: signal.Signals) -> None:
    if child.process and child.process.poll() is None:
        child.process.send_signal(signum)


def die_with_parent(parent: int) -> None:
    """In the child: get TERM when the supervisor ends, for whatever reason (Linux)."""
    # Until the child's own program runs, the inherited handler would swallow the signal.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)  # the supervisor ended before prctl


def forget_variables(names: Collection[str]) -> None:
    """Removes variables from the environment of a fork, also where the system shows it (/proc/…/environ)."""
    variables = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while address := variables[index]:
        text = ctypes.string_at(address)
        if os.fsdecode(text.partition(b"=")[0]) in names:
            ctypes.memset(address, 0, len(text))
        index += 1
    for name in names:
        os.environ.pop(name, None)
