"""`python -m tools.torture.nursery`: a process that has loaded Django and bears the processes under torture by forking.

Two kills a second, each followed by a start of half a second of computing, would leave no time for work. A forked
process is as real and as mortal as any other; it runs the very same command.

Requests come as JSON lines on standard input, answers and news of deaths leave on standard output. Signals are sent
from here as well: only the parent knows that a number still stands for its child.
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

LOOK_SECONDS = 0.02
PR_SET_PDEATHSIG = 1


class Nursery:
    def __init__(self) -> None:
        self._children: set[int] = set()

    def serve(self) -> None:
        pending = b""
        while True:
            readable, _, _ = select.select([0], [], [], LOOK_SECONDS)
            self._collect()
            if not readable:
                continue
            data = os.read(0, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._obey(json.loads(line))

    def _obey(self, request: dict[str, Any]) -> None:
        if request["do"] == "start":
            pid = os.fork()
            if pid == 0:
                _live(request)
            _lead(pid)
            self._children.add(pid)
            _say(started=pid)
        else:
            alive = request["pid"] in self._children
            if alive:
                # With its own children, as a supervisor does: those of a killed web server would keep its port.
                os.killpg(request["pid"], request["signal"])
            _say(signalled=alive)

    def _collect(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._children.discard(pid)
            _say(ended=pid, code=os.waitstatus_to_exitcode(status))


def _say(**news: Any) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


def _lead(pid: int) -> None:
    """Give it a group of its own. Said by both sides, for either may be the first to need it."""
    with contextlib.suppress(OSError):  # it has become another program, or none, by then
        os.setpgid(pid, pid)


def _live(request: dict[str, Any]) -> None:
    """In the child: become the command, and end with its code."""
    code = 1
    try:
        # However the run ends, nothing of it is left behind.
        _lead(os.getpid())
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
    except BaseException:  # noqa: BLE001  # said in its log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    django.setup()
    for name in ("run_router", "run_orchestrator", "run_worker", "run_cleaner", "run_workflows", "migrate"):
        load_command_class(str(get_commands()[name]), name)
    # What every start reads, so that no child has to: on a busy machine it would be killed before it has begun.
    MigrationLoader(None)
    run_checks()
    gc.freeze()
    _say(ready=True)
    Nursery().serve()


if __name__ == "__main__":
    main()
