"""How often an idle step polls. Notifications do not reach other hosts: work that comes from there is found by polling,
so often that an event is delivered within a tenth of a second. A hub whose notifications arrive polls seldom."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

# The kind of loop that hands work to each kind. The router's work comes from web servers and other programs, which are
# not in the registry: a router learns from the events that it finds whether their notifications reach it.
SOURCES = {"orchestrator": "router", "worker": "orchestrator"}
ROUTER = "router"
# How long a delivery may wait for polls; shared by the steps that need them, because it passes one after the other. The
# other half of the tenth of a second is for the work of the steps and the connection to the endpoint.
DELIVERY_SECONDS = 0.05
# After an event without a notification, a router whose notifications arrive again polls often for so long.
REMEMBERED_SECONDS = 3600.0

Hosts = Mapping[str, Collection[str]]


def without_notifications(hosts: Hosts) -> set[str]:
    """The kinds whose source also runs on a host that has no loop of this kind. `hosts` are the hosts of each kind."""
    return {kind for kind, source in SOURCES.items() if set(hosts.get(source, ())) - set(hosts.get(kind, ()))}


class Pace:
    def __init__(self, kind: str, interval: float) -> None:
        """`interval`: the longest wait between two polls of an idle step, in seconds."""
        self._kind = kind
        self._interval = interval
        self._without: set[str] = set()
        # For a router: when it last found an event without a notification. It assumes so at first, if there are
        # several hosts.
        self._unnotified_at: float | None = None
        self._is_known = False

    @property
    def longest(self) -> float:
        """The longest wait between two polls now."""
        polling = len(self._without - {ROUTER}) + 1
        needs_polls = self._kind in self._without or self._unnotified_at is not None
        return min(self._interval, DELIVERY_SECONDS / polling) if needs_polls else self._interval

    def note_hosts(self, hosts: Hosts) -> None:
        """The hosts of each kind of loop, from the registry."""
        self._without = without_notifications(hosts)
        has_others = len(set().union(*map(set, hosts.values()))) > 1 if hosts else False
        if self._kind == ROUTER and has_others and not self._is_known:
            self._unnotified_at = time.monotonic()

    def note_found(self, *, notified: bool) -> None:
        """A router has found events, or was notified of events."""
        if self._kind != ROUTER:
            return
        now = time.monotonic()
        if not notified:
            self._unnotified_at, self._is_known = now, True
        elif self._unnotified_at is not None and (not self._is_known or now - self._unnotified_at > REMEMBERED_SECONDS):
            self._unnotified_at = None
        self._is_known = True
