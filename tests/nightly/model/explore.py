"""Every state that can be reached, breadth first, and whether each can still come to its end."""

from __future__ import annotations

import gc
from collections import defaultdict
from dataclasses import dataclass, field

from . import rules
from .protocol import SWITCH, Protocol, State, ended


@dataclass(frozen=True)
class Outcome:
    states: int
    steps: int
    broken: str | None = None
    path: list[str] = field(default_factory=list)  # the shortest way to it

    def __str__(self) -> str:
        counted = f"{self.states:,} states, {self.steps:,} steps"
        if self.broken is None:
            return f"{counted}: no rule broken, every state can end"
        return f"{counted}: {self.broken}\n    " + "\n    ".join(self.path)


def explore(protocol: Protocol) -> Outcome:
    # Millions of tuples and not one cycle: looking for some takes half of the time.
    gc.disable()
    try:
        return _explore(protocol)
    finally:
        gc.enable()


def _explore(protocol: Protocol) -> Outcome:
    start = protocol.start()
    numbers = {start: 0}
    states, came = [start], [(-1, "")]
    back: dict[int, list[int]] = defaultdict(list)
    steps = 0
    for number, state in enumerate(states):  # it grows while it is read
        for label, after in protocol.steps(state):
            steps += 1
            broken = rules.of_a_step(state, after)
            found = numbers.get(after)
            if found is None:
                broken = broken or rules.of_a_state(after, protocol)
                found = numbers[after] = len(states)
                states.append(after)
                came.append((number, label))
            # Every delivery must be able to end without a change of its subscription.
            if not label.startswith(SWITCH):
                back[found].append(number)
            if broken:
                return Outcome(len(states), steps, broken, [*_way(came, number), label])
    stuck = _stuck(states, back)
    if stuck is not None:
        return Outcome(len(states), steps, "a state that cannot end", _way(came, stuck))
    return Outcome(len(states), steps)


def _way(came: list[tuple[int, str]], number: int) -> list[str]:
    labels = []
    while number:
        number, label = came[number]
        labels.append(label)
    return labels[::-1]


def _stuck(states: list[State], back: dict[int, list[int]]) -> int | None:
    """The first state from which no way leads to an end."""
    todo = [number for number, state in enumerate(states) if ended(state)]
    reached = set(todo)
    while todo:
        for earlier in back[todo.pop()]:
            if earlier not in reached:
                reached.add(earlier)
                todo.append(earlier)
    return next((number for number in range(len(states)) if number not in reached), None)
