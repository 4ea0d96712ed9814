"""The claims of a run. Each is checked against the observations, and yields its violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools.torture.claims.deliveries import attempts_are_results, each_ended, one_saga_each
from tools.torture.claims.events import nothing_else_is_stored, stored_as_sent, transactions_are_atomic
from tools.torture.claims.leases import duplicates_are_explained, resets_are_explained
from tools.torture.claims.requests import as_stored_and_signed, same_bytes
from tools.torture.claims.responses import completed_were_received, failures_have_causes, steady_ones_complete
from tools.torture.claims.workflows import replay_agrees, workflows_are_tracked
from tools.torture.observations import Observations


@dataclass(frozen=True)
class Claim:
    text: str
    violations: Callable[[Observations], Iterator[str]]


@dataclass(frozen=True)
class Verdict:
    claim: str
    violations: list[str]


def check_claims(observed: Observations, claims: Sequence[Claim] | None = None) -> list[Verdict]:
    """`claims`: some of CLAIMS; all of them by default."""
    return [Verdict(claim.text, list(claim.violations(observed))) for claim in claims or CLAIMS]


def nothing_final_changed(observed: Observations) -> Iterator[str]:
    yield from observed.changed


def audit_is_clean(observed: Observations) -> Iterator[str]:
    if observed.audit:
        yield observed.audit


def no_process_failed(observed: Observations) -> Iterator[str]:
    yield from observed.logs.tracebacks
    for exit in observed.exits:
        if not exit.expected and not (exit.kind in ("producer", "command") and exit.code == 0):
            yield f"{exit.slot} exited unexpectedly with code {exit.code}: {exit.log}"


CLAIMS = (
    Claim("Every acknowledged event is stored once, as it was sent.", stored_as_sent),
    Claim("Nothing is stored that was rolled back or never sent.", nothing_else_is_stored),
    Claim("A transaction is stored completely or not at all.", transactions_are_atomic),
    Claim("Every event has exactly one delivery for each subscription of its type.", one_saga_each),
    Claim("Every delivery ended once: Completed, or DeadLettered with its dead letter.", each_ended),
    Claim("attempt_count equals the number of accepted results, and the last one decided.", attempts_are_results),
    Claim("Every Completed delivery was received with a 2xx response.", completed_were_received),
    Claim("Every failed attempt has a recorded cause.", failures_have_causes),
    Claim("Every delivery to /steady completed, except after faults.", steady_ones_complete),
    Claim("Every request matched the stored event and was signed for its subscription.", as_stored_and_signed),
    Claim("Every attempt of an event had the same webhook-id and the same bytes.", same_bytes),
    Claim("No attempt was received more often than lease resets explain.", duplicates_are_explained),
    Claim("No lease was reset except after an injected fault.", resets_are_explained),
    Claim("No final row ever changed.", nothing_final_changed),
    Claim("Every workflow is tracked once, to its end, and published once.", workflows_are_tracked),
    Claim("The replay of the workflows finds no difference.", replay_agrees),
    Claim("The integrity check finds nothing.", audit_is_clean),
    Claim("No traceback, and no process exited unexpectedly.", no_process_failed),
)
