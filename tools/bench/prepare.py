"""`python -m tools.bench.prepare URL …`: migrates the database of DATABASE_URL and subscribes the load's receivers.

A process of its own, because Django knows one database for its life, and a run of the benchmark uses several.
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
        for number, event_type in enumerate(event_types(width)):
            for further in range(width):
                url = urls[(number + further) % len(urls)]
                Subscription.objects.create(event_type=event_type, callback_url=url)
    # What a verification would set; the receiver is the harness's own.
    Subscription.objects.update(verified=True, verification_at=clock.now())


if __name__ == "__main__":
    main(sys.argv[1:])
