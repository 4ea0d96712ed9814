"""Who acts at this moment, and why.

Kept beside the call and not handed through it, because some changes are made by code that is not ours (Django's pages
for users and groups) and an argument that may be left out would be. Whoever says nothing is an operator at the
command line: every request says who it is, in `middleware.py`.
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


def _operator() -> Actor:
    return Actor(Operator().get_username(), COMMAND)


_actor: ContextVar[Callable[[], Actor]] = ContextVar("actor", default=_operator)
_reason: ContextVar[str] = ContextVar("reason", default="")


def current() -> Actor:
    return _actor.get()()


def reason() -> str:
    return _reason.get()


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """Within it, what is done is done by `who`, asked when something is done."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def because(why: str) -> Iterator[None]:
    """Within it, this is the reason."""
    token = _reason.set(why)
    try:
        yield
    finally:
        _reason.reset(token)
