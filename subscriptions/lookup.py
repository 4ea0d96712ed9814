"""Finding the subscription that somebody names at the command line."""

from __future__ import annotations

from django.core.management.base import CommandError

from .models import Subscription


def subscription_or_error(number: int) -> Subscription:
    try:
        return Subscription.objects.get(id=number)
    except Subscription.DoesNotExist:
        raise CommandError(f"There is no subscription {number}.") from None
