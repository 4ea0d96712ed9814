"""What a definition must not say, because something else in it says the opposite."""

from __future__ import annotations

from collections.abc import Iterator

from .definition import Definition
from .words import DONE, FAILURE, UNDO_FAILED, UNDONE

# Where it is wrong, and why.
Contradiction = tuple[str, str]
UNDOING = {UNDONE: "was undone", UNDO_FAILED: "could not be undone"}


def of(definition: Definition) -> Iterator[Contradiction]:
    yield from _named_twice(definition)
    yield from _starts_with_its_failure(definition)
    yield from _said_of_two(definition)
    yield from _done_by_undoing(definition)


def _named_twice(definition: Definition) -> Iterator[Contradiction]:
    for step in definition.steps:
        for other in step.after:
            if step.after.count(other) > 1:
                yield f"steps.{step.key}.after", f"names {other!r} twice; name it once"


def _starts_with_its_failure(definition: Definition) -> Iterator[Contradiction]:
    """What undoes a saga would begin the next, or the event that begins one would make it fail."""
    for step in definition.steps:
        for name in ("failed", "compensated", "compensation_failed"):
            for event_type in getattr(step, name):
                if event_type in definition.starts:
                    yield (
                        f"steps.{step.key}.{name}",
                        f"holds {event_type!r}, which is in starts: the workflow would begin with what says that it "
                        "fails or is undone; give each a type of its own",
                    )


def _said_of_two(definition: Definition) -> Iterator[Contradiction]:
    """One event would do two steps at once, or do one and fail another."""
    for event_type, said in definition.roles.items():
        done = [step for step, role in said if role == DONE]
        failed = [step for step, role in said if role == FAILURE]
        for other in done[1:]:
            yield (
                f"steps.{other}.done",
                f"holds {event_type!r}, which says that step {done[0]!r} is done; each step needs a type of its own",
            )
        if done and failed:
            yield (
                f"steps.{done[0]}.done",
                f"holds {event_type!r}, which says that step {failed[0]!r} has failed; give each a type of its own",
            )


def _done_by_undoing(definition: Definition) -> Iterator[Contradiction]:
    """A step that is needed is done by nothing but what tells that another was undone, or could not be.

    Where one of the two is optional, or the step has another type to be done by, there is a way to go well.
    """
    undoing = {
        event_type: (other.key, role)
        for other in definition.required
        for role in UNDOING
        for event_type in other.types()[role]
    }
    for step in definition.required:
        if undoing.keys() >= set(step.done):
            other, role = undoing[step.done[0]]
            yield (
                f"steps.{step.key}.done",
                f"holds {step.done[0]!r}, which says that step {other!r} {UNDOING[role]}: the workflow could go well "
                "only by being undone; give each a type of its own",
            )
