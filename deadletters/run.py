"""A requeue of dead letters that were chosen beforehand, portion by portion.

The list is made when somebody is asked, and travels in the page: what was shown is what is done. Each portion is a
fixed part of it, and all of them are one request under one token, so that a portion that is sent again does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from webhookhub import signed_state
from webhookhub.ids import new_token

from .bulk_requeue import told_of
from .filters import Choice
from .requeue import Outcome, Requester, carry_out, require

KIND = "deadletters.run"
PORTION = 1000


@dataclass(frozen=True)
class Run:
    """What is to be done, and how far it has come."""

    ids: tuple[int, ...]
    choice: Choice
    limit: int
    more: bool  # others match as well
    token: str
    reason: str = ""
    at: int = 0
    created: int = 0
    met: int = 0  # requeued between the question and the answer

    @classmethod
    def of(cls, ids: Sequence[int], choice: Choice, limit: int, *, more: bool) -> Run:
        return cls(tuple(ids), choice, limit, more, new_token())

    @property
    def finished(self) -> bool:
        return self.at >= len(self.ids)

    def sealed(self, user: int | None) -> str:
        # Differences: of five thousand numbers that lie close together, little is left when compressed.
        steps = [after - before for before, after in pairwise((0, *self.ids))]
        return signed_state.sign({**self.__dict__, "ids": steps, "choice": self.choice.as_facts()}, KIND, user)

    @classmethod
    def opened(cls, text: str, user: int | None) -> Run:
        given: dict[str, Any] = signed_state.read(text, KIND, user, max_age=signed_state.MAX_PAGE_AGE)
        return cls(
            **{**given, "ids": tuple(accumulate(given["ids"])), "choice": Choice.from_facts(given["choice"])},
        )

    def go_on(self, by: Requester) -> tuple[Run, Outcome]:
        """Do the portion that it has come to. Raises as requeue() does, before anything is written."""
        reason = require(by, self.reason, many=True)
        portion = self.ids[self.at : self.at + PORTION]
        parts = -(-len(self.ids) // PORTION)
        part = f"part {self.at // PORTION + 1} of {parts}" if parts > 1 else ""
        told = told_of(self.choice, part, limit=self.limit, chosen=len(self.ids))
        done = carry_out(portion, by=by, reason=reason, told=told, token=self.token)
        created = sum(result.is_delivered_now for result in done.requeued)
        after = replace(
            self,
            at=self.at + len(portion),
            created=self.created + created,
            met=self.met + len(portion) - created,
        )
        return after, done
