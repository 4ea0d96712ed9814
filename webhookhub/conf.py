"""The hub's settings: every WEBHOOKHUB_* variable, its type, its default and its bounds.

A value out of bounds or a name that does not exist stops the process and says what would be right.
"""

from __future__ import annotations

import base64
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver

PREFIX = "WEBHOOKHUB_"
# A statement of ten columns stays below the number of parameters that every engine takes.
MAX_BATCH = 2000
Network = IPv4Network | IPv6Network


def _setting(default: Any, parse: Callable[[str], Any], meaning: str, *, secret: bool = False) -> Any:
    # A secret is shown neither in messages nor in the settings' own repr.
    return field(default=default, repr=not secret, metadata={"parse": parse, "meaning": meaning, "secret": secret})


def _whole(minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum}")
        return value

    return parse


def _seconds(minimum: float, maximum: float = 10**8) -> Callable[[str], timedelta]:
    def parse(text: str) -> timedelta:
        try:
            value = float(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            raise ValueError(f"a number of seconds from {minimum:g} to {maximum:g}")
        return timedelta(seconds=value)

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("one of " + ", ".join(words))
        return text

    return parse


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"networks in CIDR form, separated by commas ({error})") from None


def _ports(text: str) -> tuple[tuple[int, int], ...]:
    ranges = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        try:
            pair = int(low), int(high or low)
        except ValueError:
            pair = 0, 0
        if not 1 <= pair[0] <= pair[1] <= 65535:
            raise ValueError("ports or ranges of ports, separated by commas, such as 443,8443,9000-9100")
        ranges.append(pair)
    return tuple(ranges)


def _folders(text: str) -> tuple[Path, ...]:
    folders = tuple(Path(part.strip()).absolute() for part in text.split(",") if part.strip())
    if not all(folder.is_dir() for folder in folders):
        raise ValueError("paths of folders that exist, separated by commas")
    return folders


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    for key in keys:
        try:
            raw = base64.urlsafe_b64decode(key)
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise ValueError("keys of 32 random bytes in URL-safe base64, separated by commas (manage.py generate_key)")
    return keys


def _token(text: str) -> str:
    if text and (not 16 <= len(text) <= 200 or not text.isascii() or not text.isprintable() or " " in text):
        raise ValueError("16 to 200 letters, digits and signs, without blanks")
    return text


def _authorities(text: str) -> str:
    try:
        held = not text or b"-----BEGIN CERTIFICATE-----" in Path(text).read_bytes()
    except OSError:
        held = False
    if not held:
        raise ValueError("the path of a file of certificates in PEM form")
    return text


@dataclass(frozen=True)
class HubSettings:
    """Durations are given in seconds in the environment and held as timedelta."""

    # Retries (a saga keeps the policy it was born with)
    max_retry_limit: int = _setting(10, _whole(1, 1000), "attempts of a delivery, the first included")
    base_delay: timedelta = _setting(
        timedelta(seconds=30), _seconds(0.001, 86400), "delay after the first failure; doubles"
    )
    max_delay: timedelta = _setting(timedelta(hours=6), _seconds(0.001, 2592000), "longest delay between two attempts")
    retry_after_cap: timedelta = _setting(
        timedelta(hours=6), _seconds(0, 2592000), "longest Retry-After that is honoured"
    )
    postpone: timedelta = _setting(
        timedelta(seconds=30),
        _seconds(0.05, 3600),
        "how often a delivery to a switched-off subscription is looked at again",
    )

    # Leases and requests
    lease: timedelta = _setting(timedelta(seconds=60), _seconds(0.1, 86400), "how long a worker may hold a job")
    lease_margin: timedelta = _setting(
        timedelta(seconds=10), _seconds(0.01, 3600), "what a lease must exceed the request time-out by"
    )
    max_lease_resets: int = _setting(5, _whole(0, 1000), "resets after which a job fails without being sent again")
    request_timeout: timedelta = _setting(timedelta(seconds=30), _seconds(0.05, 3600), "a request's whole time")
    connect_timeout: timedelta = _setting(timedelta(seconds=5), _seconds(0.01, 300), "a connection's set-up time")
    worker_concurrency: int = _setting(250, _whole(1, 10000), "requests a worker has under way at once")
    requests_per_host: int = _setting(20, _whole(1, 10000), "requests a worker has under way at one receiver")

    # What may be reached
    allowed_networks: tuple[Network, ...] = _setting((), _networks, "networks that may be reached although not public")
    allowed_ports: tuple[tuple[int, int], ...] = _setting(
        ((443, 443), (8443, 8443)), _ports, "ports that a callback URL may name"
    )
    ca_bundle: str = _setting("", _authorities, "certificate authorities to trust, instead of the public ones")

    # Secrets at rest
    encryption_keys: tuple[str, ...] = _setting(
        (), _keys, "keys for the secrets in the database; the first encrypts, all decrypt", secret=True
    )
    secret_overlap: timedelta = _setting(
        timedelta(hours=24), _seconds(0, 2592000), "how long a replaced signing secret still signs besides the new one"
    )

    # The API
    api_events_per_second: int = _setting(
        1000, _whole(1, 100_000), "events that an API key may send on average; ten seconds' worth at once"
    )
    api_batch_bytes: int = _setting(8 * 1024 * 1024, _whole(1024, 256 * 1024 * 1024), "the longest batch of events")

    # Loops
    batch_size: int = _setting(500, _whole(1, MAX_BATCH), "rows per statement")
    poll_interval: timedelta = _setting(timedelta(seconds=0.5), _seconds(0.01, 3600), "an idle loop's longest wait")
    drain: timedelta = _setting(
        timedelta(seconds=40), _seconds(0, 3600), "how long a stopping process may finish its work"
    )
    heartbeat: timedelta = _setting(timedelta(seconds=5), _seconds(0.05, 300), "how often a process says it is alive")
    process_expiry: timedelta = _setting(
        timedelta(seconds=300), _seconds(1, 86400), "silence after which a process is forgotten"
    )

    # Workflows
    workflow_definitions: tuple[Path, ...] = _setting(
        (), _folders, "folders of workflow definitions (*.toml), instead of the shipped ones"
    )

    # Figures
    figures_by_minute: timedelta = _setting(
        timedelta(hours=6),
        _seconds(120, 2592000),
        "how long deliveries are known by the minute; by the hour after that",
    )
    figures_by_hour: timedelta = _setting(
        timedelta(days=90), _seconds(7200, 315360000), "how long deliveries are known by the hour"
    )
    metrics_networks: tuple[Network, ...] = _setting((), _networks, "networks from which /metrics may be read")
    metrics_token: str = _setting("", _token, "a bearer token with which /metrics may be read", secret=True)

    # Logs
    log_level: str = _setting(
        "INFO", _one_of("DEBUG", "INFO", "WARNING", "ERROR"), "the least severe line that is written"
    )
    log_format: str = _setting("auto", _one_of("auto", "json", "text"), "auto: text on a terminal, JSON elsewhere")


# The loops that a whole hub consists of.
KINDS = ("router", "orchestrator", "worker", "cleaner", "workflows")

# A database URL for each kind of process that run_hub starts; read by run_hub alone, for these hold passwords.
PROCESS_DATABASE_URLS = {kind: f"{PREFIX}{kind.upper()}_DATABASE_URL" for kind in (*KINDS, "web")}

# Read elsewhere, not part of HubSettings.
OTHER_NAMES = {
    *PROCESS_DATABASE_URLS.values(),
    "WEBHOOKHUB_SECRET_KEY",
    "WEBHOOKHUB_DEBUG",
    "WEBHOOKHUB_ALLOWED_HOSTS",
    "WEBHOOKHUB_CSRF_ORIGINS",
    "WEBHOOKHUB_STAFF_PASSWORD",
}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def load(environment: Mapping[str, str]) -> HubSettings:
    known = {variable(item.name): item for item in fields(HubSettings)}
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name in OTHER_NAMES:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *OTHER_NAMES], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ImproperlyConfigured(f"{name} is not a setting of the hub{hint}")
        try:
            values[known[name].name] = known[name].metadata["parse"](text)
        except ValueError as error:
            shown = "" if known[name].metadata["secret"] else f"={text!r}"
            raise ImproperlyConfigured(f"{name}{shown}: it must be {error}") from None
    return HubSettings(**values)


# Kept, because every delivery asks several times and Django's settings take their time to answer.
@cache
def hub() -> HubSettings:
    """The settings in force."""
    return settings.WEBHOOKHUB


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    """Only tests change settings while a process runs."""
    if setting == "WEBHOOKHUB":
        hub.cache_clear()
