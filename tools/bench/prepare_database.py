"""`python -m tools.bench.prepare_database URL …`: migrates the database of DATABASE_URL and creates subscriptions.

`TYPE=URL …` creates one verified subscription each, in a database that is migrated already.
A separate process, because a Django process has one database, and the benchmark uses several.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from tools.bench.load import WIDTHS, event_types


def main(arguments: list[str]) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    if "=" in arguments[0]:
        _subscribe(tuple(argument.split("=", 1)) for argument in arguments)
        return
    call_command("migrate", verbosity=0)
    _subscribe(
        (event_type, arguments[(index + offset) % len(arguments)])
        for width in WIDTHS
        for index, event_type in enumerate(event_types(width))
        for offset in range(width)
    )


def _subscribe(types_and_urls: Iterable[tuple[str, ...]]) -> None:
    from subscriptions.models import Subscription
    from webhookhub.db import clock

    for event_type, url in types_and_urls:
        Subscription.objects.create(event_type=event_type, callback_url=url)
    # The endpoint is the benchmark's own and does not respond to challenges.
    Subscription.objects.filter(verified=False).update(verified=True, verification_at=clock.now())


if __name__ == "__main__":
    main(sys.argv[1:])
