"""What the results of attempts say about the health of their endpoints, as an orchestrator sees them.

A single failure is remembered here only. A trouble is stored when it has lasted for a while or has opened the breaker:
a result of a healthy endpoint, or of one that fails now and then, costs no statement.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from subscriptions import health
from subscriptions.cache import versions
from subscriptions.health import GONE_CODE, Health
from webhookhub.conf import hub
from webhookhub.db.clock import Estimate
from webhookhub.egress import error_codes
from webhookhub.logs import Log, log

# A trouble is stored when it has lasted so long, or for this part of the time after which an endpoint is disabled.
STORE_AFTER = timedelta(minutes=1)
STORE_PART = 0.1
# The hub's own trouble, which says nothing about an endpoint.
OWN_TROUBLE = {error_codes.LEASE_EXPIRED, error_codes.SIGNING_ERROR}


class EndpointMonitor:
    def __init__(self) -> None:
        self._clock = Estimate()
        self._version: int | None = None
        self._known: dict[int, Health] = {}
        # The first failure after the last success, of endpoints whose last result was a failure.
        self._failing_since: dict[int, datetime] = {}

    def refresh(self, version: int) -> None:
        """Read what has changed since the last call; `version` changes with every change."""
        if version != self._version:
            self._known = {}
            for endpoint, known in health.load().items():
                self._learn(endpoint, known)
            self._version = version

    def note_result(self, endpoint: int, subscription_id: int, error_code: str | None, *, breaker_opened: bool) -> None:
        self._load()
        if error_code is None:
            self._note_success(endpoint, subscription_id)
        elif error_code not in OWN_TROUBLE:
            self._note_failure(endpoint, subscription_id, error_code, breaker_opened)

    def note_gone(self, endpoint: int, subscription_id: int) -> None:
        """May be repeated: the endpoint is disabled once."""
        self._load()
        known = self._known.get(endpoint)
        if known is None or known.disabled_at is None:
            if health.disable_gone(endpoint):
                log(Log.ENDPOINT_DISABLED, subscription_id=subscription_id, reason=health.GONE)
            self._reload(endpoint)

    def _load(self) -> None:
        if self._version is None:
            self.refresh(versions().health)

    def _note_success(self, endpoint: int, subscription_id: int) -> None:
        self._failing_since.pop(endpoint, None)
        known = self._known.get(endpoint)
        if known is not None and known.is_failing and known.disabled_at is None:
            if health.note_success(endpoint):
                log(Log.ENDPOINT_RECOVERED, subscription_id=subscription_id)
            self._reload(endpoint)

    def _note_failure(self, endpoint: int, subscription_id: int, error_code: str, breaker_opened: bool) -> None:
        self._clock.measure_if_due()
        now = self._clock.now()
        since = self._failing_since.setdefault(endpoint, now)
        known = self._known.get(endpoint)
        if known is not None and known.disabled_at is not None:
            return
        if error_code == GONE_CODE:
            self.note_gone(endpoint, subscription_id)
        elif known is None or not known.is_failing:
            if breaker_opened or now - since >= _store_after():
                if health.note_failing(endpoint, since, error_code, now if breaker_opened else None):
                    log(Log.ENDPOINT_FAILING, subscription_id=subscription_id, error_code=error_code)
                self._reload(endpoint)
        else:
            self._note_stage(endpoint, subscription_id, error_code, known, now)
            if breaker_opened and known.breaker_open_since is None and health.note_breaker(endpoint, now):
                self._reload(endpoint)

    def _note_stage(self, endpoint: int, subscription_id: int, error_code: str, known: Health, now: datetime) -> None:
        """By a failed attempt only: an endpoint without attempts is not disabled."""
        stage = health.stage_of(now - known.failing_since, hub().disable_after)
        if stage <= known.stage:
            return
        if stage == health.DISABLED:
            if health.disable_failing(endpoint, known, error_code):
                log(
                    Log.ENDPOINT_DISABLED,
                    subscription_id=subscription_id,
                    reason=health.NO_SUCCESS,
                    error_code=error_code,
                )
        else:
            health.note_stage(endpoint, known, stage)
        self._reload(endpoint)

    def _reload(self, endpoint: int) -> None:
        known = health.load_one(endpoint)
        if known is not None:
            self._learn(endpoint, known)

    def _learn(self, endpoint: int, known: Health) -> None:
        self._known[endpoint] = known
        since = self._failing_since.get(endpoint)
        if since is not None and known.recovered_at is not None and known.recovered_at > since:
            # Another process has seen a success, or a person has enabled it.
            del self._failing_since[endpoint]


def _store_after() -> timedelta:
    limit = hub().disable_after
    return min(STORE_AFTER, STORE_PART * limit) if limit else STORE_AFTER
