"""Before the curtain rises: the tables, and verified subscriptions to the receiver."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.management import call_command

from .plan import REFUSED_LIMIT

# path: event type, attempts allowed
PATHS = {
    "/steady": ("order.created", None),
    "/flaky": ("order.created", None),
    "/broken": ("order.refused", REFUSED_LIMIT),
    "/slow": ("order.slow", None),
}
UNWANTED = "order.unwanted"


def main(arguments: Sequence[str]) -> None:
    """`arguments`: path=URL for each path."""
    from subscriptions.models import Subscription
    from subscriptions.verification import verify

    call_command("migrate", verbosity=0)
    for argument in arguments:
        path, _, url = argument.partition("=")
        event_type, limit = PATHS[path]
        subscription = Subscription.objects.create(event_type=event_type, callback_url=url, max_retry_limit=limit)
        result = verify(subscription)
        if not result.verified:
            raise SystemExit(f"{url} could not be verified: {result.reason}")
