"""To whom dead letters would be delivered anew, and who of them gets nothing for the time being."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from subscriptions.models import Subscription
from webhookhub.console import format

MOST_NAMED = 20
COLUMNS = ("event_type", "callback_url", "active", "verified")


@dataclass(frozen=True)
class Receiver:
    name: str
    number: int
    # Why nothing is sent to it now; None if there is no reason.
    held_back: str | None


@dataclass(frozen=True)
class Receivers:
    """Those with most of them; how many others there are, and how many of the dead letters are theirs.

    `waiting` are the dead letters, of all, whose new delivery would wait.
    """

    named: list[Receiver]
    others: int
    of_others: int
    waiting: int


def receivers(counts: Counter[int]) -> Receivers:
    """`counts` has the number of dead letters of each subscription."""
    rows = Subscription.objects.only(*COLUMNS).in_bulk(list(counts))
    reasons = {id: format.held_back(row.active, row.verified) for id, row in rows.items()}
    most = counts.most_common(MOST_NAMED)
    return Receivers(
        named=[Receiver(str(rows[id]), number, reasons[id]) for id, number in most if id in rows],
        others=len(counts) - len(most),
        of_others=counts.total() - sum(number for _, number in most),
        waiting=sum(number for id, number in counts.items() if reasons.get(id)),
    )
