"""The current actor and reason.

They are context variables and not arguments, because Django's own pages change users and groups. Without a request
(see `middleware.py`), the actor is the operator at the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from webhookhub.terminal import Operator

from .actions import COMMAND


class Actor(NamedTuple):
    name: str
    via: str


_actor: ContextVar[Callable[[], Actor]] = ContextVar("actor", default=lambda: Actor(Operator().get_username(), COMMAND))
_reason: ContextVar[str] = ContextVar("reason", default="")


def current() -> Actor:
    return _actor.get()()


def reason() -> str:
    return _reason.get()


@contextmanager
def acting_as(actor: Callable[[], Actor]) -> Iterator[None]:
    """`actor` is called for each recorded action: during a request, the user may become known only later."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def because(reason: str) -> Iterator[None]:
    """Record actions with this reason."""
    token = _reason.set(reason)
    try:
        yield
    finally:
        _reason.reset(token)
