"""`python -m tools.torture.fork_server`: loads Django once and starts the processes under test by forking.

Starting Django takes half a second of CPU; with two kills per second, no time would be left for work.

Requests are JSON lines on standard input; responses and notices of ended processes are written to standard output.
Signals are sent from here, because only the parent knows that a pid still belongs to its child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from typing import Any

import django
from django.core.checks import run_checks
from django.core.management import execute_from_command_line, get_commands, load_command_class
from django.db.migrations.loader import MigrationLoader

POLL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1


class ForkServer:
    def __init__(self) -> None:
        self._children: set[int] = set()

    def serve(self) -> None:
        pending = b""
        while True:
            readable, _, _ = select.select([0], [], [], POLL_SECONDS)
            self._collect()
            if not readable:
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._handle(json.loads(line))

    def _handle(self, request: dict[str, Any]) -> None:
        if request["do"] == "start":
            pid = os.fork()
            if pid == 0:
                _run(request)
            _lead_group(pid)
            self._children.add(pid)
            _report(started=pid)
        else:
            alive = request["pid"] in self._children
            if alive:
                # The whole group, as a supervisor does: children of a killed web server would keep its port.
                os.killpg(request["pid"], request["signal"])
            _report(signalled=alive)

    def _collect(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._children.discard(pid)
            _report(ended=pid, code=os.waitstatus_to_exitcode(status))


def _report(**values: Any) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def _lead_group(pid: int) -> None:
    """Puts the process into its own group. Called by parent and child, because either may need it first."""
    with contextlib.suppress(OSError):  # it has ended, or runs another program
        os.setpgid(pid, pid)


def _run(request: dict[str, Any]) -> None:
    """Runs the command in the child and exits with its code."""
    code = 1
    try:
        # The child must not outlive the run.
        _lead_group(os.getpid())
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if module := request.get("module"):
            importlib.import_module(module).main(request["arguments"])
        else:
            execute_from_command_line(["manage.py", *request["arguments"]])
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001  # written to its log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    django.setup()
    for name in ("run_router", "run_orchestrator", "run_worker", "run_cleaner", "run_workflows", "migrate"):
        load_command_class(str(get_commands()[name]), name)
    # Load what every start needs: on a busy machine, a child could be killed before it has started.
    MigrationLoader(None)
    run_checks()
    gc.freeze()
    _report(ready=True)
    ForkServer().serve()


if __name__ == "__main__":
    main()
