"""`python -m tools.bench.profiler FILE manage.py …`: runs a command and samples the stacks of its step by CPU time.

A sample is taken at each tick of the process's CPU time (some milliseconds): cheap enough not to change the
proportions, and time spent waiting does not count.
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
# A stack without a frame of this function belongs to the start of the process.
STEP_FUNCTION = "_run_step"
LINES = 15

_stacks: Counter[tuple[str, ...]] = Counter()


def summary(folder: Path) -> str:
    """For each process, the functions with the most CPU time, without and with their callees."""
    lines = []
    for file in sorted(folder.glob("*.json")):
        own: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for count, *stack in json.loads(file.read_text()):
            own[stack[0] if stack else "the loop"] += count
            for function in set(stack):
                total[function] += count
        samples = own.total()
        lines.append(f"\n{file.stem}: {samples} samples\n  {'own':>6}")
        lines += [f"  {count / samples:6.1%}  {function}" for function, count in own.most_common(LINES)]
        lines.append(f"  {'total':>6}")
        lines += [f"  {count / samples:6.1%}  {function}" for function, count in total.most_common(3 * LINES)]
    return "\n".join(lines)


def _sample(number: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_name == STEP_FUNCTION:
            _stacks[tuple(stack)] += 1
            return
        stack.append(f"{_short(code.co_filename)}:{code.co_name}")
        frame = frame.f_back


def _short(file: str) -> str:
    return "/".join(Path(file).parts[-3:])


def _write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    file.write_text(json.dumps([[count, *stack] for stack, count in _stacks.most_common()]))


def main(file: str, *command: str) -> None:
    atexit.register(_write, Path(file))
    signal.signal(signal.SIGPROF, _sample)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    sys.argv = list(command)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
