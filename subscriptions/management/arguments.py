"""Arguments that several commands take."""

from __future__ import annotations

from django.core.management.base import CommandError

from subscriptions.models import Subscription


def subscription_or_error(pk: int) -> Subscription:
    try:
        return Subscription.objects.get(pk=pk)
    except Subscription.DoesNotExist:
        raise CommandError(f"There is no subscription {pk}.") from None
