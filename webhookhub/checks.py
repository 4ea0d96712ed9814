"""Django system checks of the machine, the libraries and the database. Settings are checked in conf.py."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from webhookhub.conf import hub, variable
from webhookhub.db import ingest, requirements, vendors
from webhookhub.egress import libcurl

# The tag of the checks that every loop runs when it starts. Django's own checks would import the whole console.
HUB = "webhookhub"
# Open files of a process besides its requests.
OTHER_FILES = 100


@register(HUB)
def files_for_all_requests(**kwargs: Any) -> list[CheckMessage]:
    """Otherwise requests would fail for lack of a socket, and count against their endpoints."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = hub().worker_concurrency + OTHER_FILES
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return []
    return [
        Error(
            f"A process may open {allowed} files here; {hub().worker_concurrency} concurrent requests need {needed}.",
            hint=f"Raise the limit (ulimit -Hn) or lower {variable('worker_concurrency')}.",
            id="webhookhub.E004",
        )
    ]


@register(HUB)
def libcurl_is_recent(**kwargs: Any) -> list[CheckMessage]:
    """With an older one, an attempt could be sent twice, and an endpoint could fill a worker's memory."""
    if libcurl.version() >= libcurl.MIN_VERSION:
        return []
    return [
        Error(
            f"libcurl {'.'.join(map(str, libcurl.version()))} is too old.",
            hint=f"Use {'.'.join(map(str, libcurl.MIN_VERSION))} or newer: the wheels of pycurl contain one.",
            id="webhookhub.E003",
        )
    ]


@register(Tags.database)
def database_is_fit(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    if not databases or "default" not in databases:
        return []
    errors = [*requirements.server_problems(), *requirements.migration_problems()]
    return [
        *_errors(errors),
        # Only warnings: an error would stop the `migrate` that repairs the triggers.
        *(
            Warning(f"{problem.message}.", hint=problem.hint, id=problem.id)
            for problem in requirements.trigger_problems()
        ),
    ]


@register(Tags.database)
def ids_of_this_cell(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Hubs whose rows may meet in one place, such as a warehouse, have disjoint ids."""
    if not databases or "default" not in databases:
        return []
    increment, offset = vendors.id_steps(connection)
    if offset > increment:
        return [
            Warning(
                f"The server ignores its auto_increment_offset {offset}: auto_increment_increment is {increment}.",
                hint="Set the increment to the largest number of cells, and the offset to a number up to that.",
                id="webhookhub.W030",
            )
        ]
    if increment == 1:
        return []
    text = f"Automatic ids are {increment} apart, with the offset {offset} (auto_increment_increment and …_offset)."
    return [Info(text, id="webhookhub.I030")]


@register(Tags.database)
def ingest_database_is_fit(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    if ingest.ALIAS not in (databases or []):
        return []
    try:
        ingest.require_same_database()
    except ImproperlyConfigured as error:
        return [Error(f"{error}.", id="webhookhub.E022")]
    return _errors(requirements.server_problems(ingest.ALIAS))


@register(Tags.security, deploy=True)
def clients_are_known(**kwargs: Any) -> list[CheckMessage]:
    if not hub().public_url or hub().trusted_proxies:
        return []
    return [
        Warning(
            "Behind a proxy, all clients have the proxy's address: one of them can use up the log-ins of all.",
            hint=f"Set {variable('trusted_proxies')} to the address of the proxy that sends X-Forwarded-For.",
            id="webhookhub.W001",
        )
    ]


def _errors(problems: Sequence[requirements.Problem]) -> list[CheckMessage]:
    return [Error(f"{problem.message}.", hint=problem.hint, id=problem.id) for problem in problems]
