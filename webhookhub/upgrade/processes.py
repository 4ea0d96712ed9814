"""Which versions run, as the loops have registered."""

from __future__ import annotations

from collections import Counter

from django.db import connection

from webhookhub import __version__
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after

BEFORE_VERSIONS = "0.1.0"


def running_versions() -> Counter[str]:
    """Version → how many steps of it send heartbeats."""
    table, field = Process._meta.db_table, Process._meta.get_field("version")
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            return Counter()
        columns = {column.name for column in connection.introspection.get_table_description(cursor, table)}
    alive = Process.objects.filter(heartbeat_at__gte=clock.now() - silent_after())
    if field.column not in columns:
        count = alive.count()
        return Counter({BEFORE_VERSIONS: count} if count else {})
    return Counter(version or BEFORE_VERSIONS for version in alive.values_list("version", flat=True))


def other_versions() -> dict[str, int]:
    return {version: count for version, count in running_versions().items() if version != __version__}
