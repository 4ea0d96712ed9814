"""What a definition must not say, because something else in it says the opposite."""

from __future__ import annotations

from collections.abc import Iterator

from .definition import Definition
from .words import DONE, FAILURE

# Where it is wrong, and why.
Contradiction = tuple[str, str]


def of(definition: Definition) -> Iterator[Contradiction]:
    yield from _named_twice(definition)
    yield from _starts_with_its_failure(definition)
    yield from _said_of_two(definition)


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
