"""`python -m tools.bench.sampled FILE manage.py …`: runs a command and writes down where its CPU time went.

A look at the stack at every tick of its CPU time (the kernel's ticks, some milliseconds): cheap enough to leave the
shares what they are, and blind to waiting.
"""

from __future__ import annotations

import atexit
import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

SECONDS = 0.001
# Frames of this function: the loop is working, not starting.
AT_WORK = "_run_step"

_stacks: Counter[tuple[str, ...]] = Counter()


def _look(number: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_name == AT_WORK:
            _stacks[tuple(stack)] += 1
            return
        stack.append(f"{_short(code.co_filename)}:{code.co_name}")
        frame = frame.f_back


def _short(file: str) -> str:
    """As a module is named, more or less: the last three parts of its path."""
    return "/".join(Path(file).parts[-3:])


def _write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    file.write_text(json.dumps([[count, *stack] for stack, count in _stacks.most_common()]))


def main(file: str, *command: str) -> None:
    atexit.register(_write, Path(file))
    signal.signal(signal.SIGPROF, _look)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    sys.argv = list(command)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
