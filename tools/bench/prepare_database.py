"""`python -m tools.bench.prepare_database URL …`: migrates the database of DATABASE_URL and creates subscriptions.

A separate process, because a Django process has one database, and the benchmark uses several.
"""

from __future__ import annotations

import os
import sys

from tools.bench.load import WIDTHS, event_types


def main(urls: list[str]) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from subscriptions.models import Subscription
    from webhookhub.db import clock

    call_command("migrate", verbosity=0)
    for width in WIDTHS:
        for index, event_type in enumerate(event_types(width)):
            for offset in range(width):
                url = urls[(index + offset) % len(urls)]
                Subscription.objects.create(event_type=event_type, callback_url=url)
    # The endpoint is the benchmark's own and does not respond to challenges.
    Subscription.objects.update(verified=True, verification_at=clock.now())


if __name__ == "__main__":
    main(sys.argv[1:])
