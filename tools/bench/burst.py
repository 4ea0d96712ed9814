"""`python -m tools.bench.burst TYPE COUNT`: publishes events of one type as fast as possible, by publish_many()."""

from __future__ import annotations

import json
import os
import sys

from tools.bench.load import PAYLOAD

BATCH = 500


def main(event_type: str, count: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
    from events.intake import NewEvent, publish_many

    payload = json.loads(PAYLOAD)
    for start in range(0, count, BATCH):
        publish_many([NewEvent(event_type, payload, source="bench") for _ in range(min(BATCH, count - start))])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
