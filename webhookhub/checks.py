"""Django system checks: what must be right before anything starts."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register

from webhookhub.conf import hub, variable
from webhookhub.db import requirements
from webhookhub.egress import libcurl

# The checks that every loop runs as it starts. Django's own would import the URLs, and with them the whole console.
HUB = "webhookhub"
# What a process has open besides its requests.
OTHER_FILES = 100


@register(HUB)
def lease_outlasts_request(**kwargs: Any) -> list[CheckMessage]:
    """Otherwise a slow receiver is sent to twice, as a matter of course."""
    settings = hub()
    needed = settings.request_timeout + settings.lease_margin
    if settings.lease > needed:
        return []
    return [
        Error(
            f"A lease of {settings.lease.total_seconds():g} s does not outlast a request: its time-out and the margin "
            f"take {needed.total_seconds():g} s.",
            hint=f"Raise {variable('lease')} or lower {variable('request_timeout')}.",
            id="webhookhub.E001",
        )
    ]


@register(HUB)
def connect_within_request(**kwargs: Any) -> list[CheckMessage]:
    settings = hub()
    if settings.connect_timeout <= settings.request_timeout:
        return []
    return [
        Error(
            "The connection's time-out is longer than the whole request's.",
            hint=f"Lower {variable('connect_timeout')} or raise {variable('request_timeout')}.",
            id="webhookhub.E002",
        )
    ]


@register(HUB)
def files_for_all_requests(**kwargs: Any) -> list[CheckMessage]:
    """Otherwise requests fail for want of a socket, and their receivers are blamed."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = hub().worker_concurrency + OTHER_FILES
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return []
    return [
        Error(
            f"A process may open {allowed} files here; {hub().worker_concurrency} requests at once need {needed}.",
            hint=f"Raise the limit (ulimit -Hn) or lower {variable('worker_concurrency')}.",
            id="webhookhub.E004",
        )
    ]


@register(HUB)
def libcurl_bounds_responses(**kwargs: Any) -> list[CheckMessage]:
    """Otherwise a receiver could fill a worker's memory."""
    if libcurl.version() >= libcurl.LEAST_VERSION:
        return []
    return [
        Error(
            f"libcurl {'.'.join(map(str, libcurl.version()))} does not bound what a receiver sends.",
            hint=f"Use {'.'.join(map(str, libcurl.LEAST_VERSION))} or newer: pycurl's own wheels bring one.",
            id="webhookhub.E003",
        )
    ]


@register(Tags.database)
def database_is_fit(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    if not databases or "default" not in databases:
        return []
    errors = [*requirements.server_problems(), *requirements.migration_problems()]
    return [
        *(Error(f"{problem.message}.", hint=problem.hint, id=problem.id) for problem in errors),
        # Only warnings: an error would stop the `migrate` that repairs the triggers.
        *(
            Warning(f"{problem.message}.", hint=problem.hint, id=problem.id)
            for problem in requirements.trigger_problems()
        ),
    ]
