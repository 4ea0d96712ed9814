"""Every setting of the hub: DATABASE_URL and the WEBHOOKHUB_* variables with their types, defaults and bounds.

A wrong value or an unknown name raises ImproperlyConfigured with a message that says what is expected.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import environ
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver

from webhookhub.db import vendors

PREFIX = "WEBHOOKHUB_"
# A statement of ten columns stays below the parameter limit of every engine.
MAX_BATCH = 2000
HOUR = 3600
DAY = 24 * HOUR
Network = IPv4Network | IPv6Network
FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
PROXY_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
HOST = re.compile(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\]")


def _setting(default: Any, parse: Callable[[str], Any], meaning: str, *, secret: bool = False) -> Any:
    # A secret appears neither in messages nor in the repr of the settings.
    return field(default=default, repr=not secret, metadata={"parse": parse, "meaning": meaning, "secret": secret})


def _whole(default: int, minimum: int, maximum: int, meaning: str) -> Any:
    expected = f"a whole number from {minimum} to {maximum}"
    return _setting(default, lambda text: _in_range(int, text, minimum, maximum, expected), meaning)


def _seconds(default: float, minimum: float, maximum: float, meaning: str) -> Any:
    expected = f"a number of seconds from {minimum:g} to {maximum:g}"

    def parse(text: str) -> timedelta:
        return timedelta(seconds=_in_range(float, text, minimum, maximum, expected))

    return _setting(timedelta(seconds=default), parse, meaning)


def _in_range(convert: Callable[[str], Any], text: str, minimum: float, maximum: float, expected: str) -> Any:
    try:
        value = convert(text)
    except ValueError:
        raise ValueError(expected) from None
    if not minimum <= value <= maximum:
        raise ValueError(expected)
    return value


def _flag(text: str) -> bool:
    if text.lower() not in FLAGS:
        raise ValueError("one of " + ", ".join(FLAGS))
    return FLAGS[text.lower()]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _hosts(text: str) -> tuple[str, ...]:
    hosts = _list(text)
    if not hosts or not all(HOST.fullmatch(host) for host in hosts):
        raise ValueError("host names without scheme and port, separated by commas, such as hub.example.com,localhost")
    return hosts


def _address(text: str) -> str:
    match = ADDRESS.fullmatch(text)
    if text and (match is None or not 1 <= int(match["port"]) <= 65535):
        raise ValueError("a host and a port, such as 127.0.0.1:8001")
    return text


def _origins(text: str) -> tuple[str, ...]:
    origins = _list(text)
    if not all(re.fullmatch(r"https?://[^/\s]+", origin) for origin in origins):
        raise ValueError("origins with their scheme, separated by commas, such as https://hub.example.com")
    return origins


def _public_url(text: str) -> str:
    url = text.rstrip("/")
    if url and not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?", url):
        raise ValueError("a scheme and a host, such as https://hub.example.com")
    return url.lower()


def _issuer(text: str) -> str:
    url = text.rstrip("/")
    # Without TLS only on this machine, for trials.
    if url and not re.fullmatch(r"(https://[^/\s?#@]+|http://(localhost|127\.0\.0\.1)(:[0-9]+)?)(/[^\s?#]*)?", url):
        raise ValueError("the https URL of the provider, such as https://login.example.com/realms/staff")
    return text


def _mapping(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.partition("=") for part in _list(text)]
    if not all(name.strip() and group.strip() for name, _, group in pairs):
        raise ValueError("pairs separated by commas, such as hub-support=support,hub-admins=superusers")
    return tuple((name.strip(), group.strip()) for name, _, group in pairs)


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("one of " + ", ".join(words))
        return text

    return parse


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part) for part in _list(text))
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
    folders = tuple(Path(part).absolute() for part in _list(text))
    if not all(folder.is_dir() for folder in folders):
        raise ValueError("paths of existing folders, separated by commas")
    return folders


def _keys(text: str) -> tuple[str, ...]:
    keys = _list(text)
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
        raise ValueError("16 to 200 letters, digits and signs, without spaces")
    return text


def _ca_bundle(text: str) -> str:
    try:
        valid = not text or b"-----BEGIN CERTIFICATE-----" in Path(text).read_bytes()
    except OSError:
        valid = False
    if not valid:
        raise ValueError("the path of a file with certificates in PEM form")
    return text


@dataclass(frozen=True)
class ProxyAddress:
    """A forward proxy. User name and password are empty if it wants none."""

    scheme: str
    host: str
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    # Whether the host is an IP address, in its usual form, and not a name.
    is_ip: bool = False


def _proxy(text: str) -> ProxyAddress | None:
    if not text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port or 0
        username, password = unquote(parts.username or "", errors="strict"), unquote(parts.password or "")
    except ValueError:
        parts, port, username, password = SplitResult("", "", "", "", ""), 0, "", ""
    host, is_ip = parts.hostname or "", False
    try:
        host, is_ip = str(ip_address(host)), True
    except ValueError:
        host = host if PROXY_HOST.fullmatch(host) else ""
    if (
        parts.scheme not in ("http", "https")
        or not host
        or not port
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or ":" in username
        or not (username + password + "x").isprintable()
    ):
        raise ValueError(
            "http:// or https://, a host and a port, such as http://user:password@proxy.example.com:3128, with signs "
            "such as / @ : in the password written as %2F %40 %3A"
        )
    return ProxyAddress(parts.scheme, host, port, username, password, is_ip)


@dataclass(frozen=True)
class HubSettings:
    """Durations are seconds in the environment and timedelta here."""

    # Django
    debug: bool = _setting(False, _flag, "Django's debug mode, for development only")
    secret_key: str = _setting("", str, "Django's secret key: a long random text", secret=True)
    allowed_hosts: tuple[str, ...] = _setting(
        ("localhost", "127.0.0.1", "[::1]"), _hosts, "host names under which the console and the API are served"
    )
    csrf_origins: tuple[str, ...] = _setting((), _origins, "further origins trusted by the console's forms")
    public_url: str = _setting("", _public_url, "URL of the console; with https, cookies are Secure and HSTS is sent")
    trusted_proxies: tuple[Network, ...] = _setting(
        (), _networks, "networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed"
    )

    # Log-in
    session_age: timedelta = _seconds(12 * HOUR, 60, 30 * DAY, "longest session of the console")
    session_idle: timedelta = _seconds(HOUR, 60, 30 * DAY, "time without a request after which a session ends")
    password_log_in: bool = _setting(True, _flag, "whether people may log in with a password")
    second_factor_groups: tuple[str, ...] = _setting(
        (), _list, "groups whose members need a second factor if they log in with a password"
    )
    oidc_issuer: str = _setting("", _issuer, "the OpenID Connect provider of single sign-on")
    oidc_client_id: str = _setting("", str, "the hub's client id at the provider")
    oidc_client_secret: str = _setting("", str, "the hub's client secret at the provider", secret=True)
    oidc_name: str = _setting("single sign-on", str, "the provider's name on the log-in page")
    oidc_groups_claim: str = _setting("groups", str, "the claim with the user's groups at the provider")
    oidc_groups: tuple[tuple[str, str], ...] = _setting((), _mapping, "groups at the provider and in the hub")

    # Retries (a delivery keeps the policy it was created with)
    max_retry_limit: int = _whole(20, 1, 1000, "attempts of a delivery, the first included")
    base_delay: timedelta = _seconds(30, 0.001, DAY, "delay after the first failure; doubles with each further one")
    max_delay: timedelta = _seconds(8 * HOUR, 0.001, 30 * DAY, "longest delay between two attempts")
    retry_after_cap: timedelta = _seconds(6 * HOUR, 0, 30 * DAY, "longest Retry-After that is honoured")
    postpone: timedelta = _seconds(
        30, 0.05, HOUR, "how often an attempt whose subscription was switched off after its creation is checked again"
    )

    # Flow control
    endpoint_window: int = _whole(200, 1, 10000, "most attempts of an endpoint that are open at once")
    breaker_failures: int = _whole(
        50, 0, 1_000_000, "failures in a row after which an endpoint is only probed; 0: never"
    )
    probe_interval: timedelta = _seconds(60, 0.05, HOUR, "longest pause between two probes of a failing endpoint")
    disable_after: timedelta = _seconds(
        5 * DAY, 0, 3650 * DAY, "time without a success after which a failing endpoint is disabled; 0: never"
    )

    # Leases and requests
    lease: timedelta = _seconds(60, 0.1, DAY, "how long a worker may hold an attempt")
    lease_margin: timedelta = _seconds(10, 0.01, HOUR, "how much longer than the request time-out a lease must be")
    max_lease_resets: int = _whole(5, 0, 1000, "lease resets after which an attempt fails without being sent again")
    request_timeout: timedelta = _seconds(30, 0.05, HOUR, "time-out of a whole request")
    connect_timeout: timedelta = _seconds(5, 0.01, 300, "time-out of connecting")
    dns_max_age: timedelta = _seconds(
        DAY, 0, 30 * DAY, "how long the last known addresses of a host are used while its lookup is late or fails"
    )
    worker_concurrency: int = _whole(250, 1, 10000, "concurrent requests of a worker")
    requests_per_host: int = _whole(20, 1, 10000, "concurrent requests of a worker to one host")

    # Allowed destinations
    allowed_networks: tuple[Network, ...] = _setting((), _networks, "private networks that may be reached")
    allowed_ports: tuple[tuple[int, int], ...] = _setting(
        ((443, 443), (8443, 8443)), _ports, "ports that a callback URL may use"
    )
    ca_bundle: str = _setting("", _ca_bundle, "file of certificate authorities to trust instead of the public ones")
    egress_proxy: ProxyAddress | None = _setting(
        None, _proxy, "forward proxy through which all requests to endpoints are sent", secret=True
    )

    # Secrets at rest
    encryption_keys: tuple[str, ...] = _setting(
        (), _keys, "keys for the secrets in the database; the first encrypts, all decrypt", secret=True
    )
    secret_overlap: timedelta = _seconds(
        DAY, 0, 30 * DAY, "how long a replaced signing secret signs besides the new one"
    )

    # The API
    api_events_per_second: int = _whole(
        1000, 1, 100_000, "average rate of events per API key; ten seconds' worth at once"
    )
    api_batch_bytes: int = _whole(8 * 1024 * 1024, 1024, 256 * 1024 * 1024, "largest batch of events in bytes")
    key_expiry_warning: timedelta = _seconds(
        14 * DAY, 0, 365 * DAY, "how long before its expiry the hub warns of an API key"
    )

    # Event types
    strict_event_types: bool = _setting(
        False, _flag, "refuse events of undeclared types, and payloads that break the schema of their type"
    )
    public_event_types: bool = _setting(
        False, _flag, "publish the catalogue of event types at /event-types/, for everybody"
    )

    create_customers: bool = _setting(
        False, _flag, "create a customer that an event names and that does not exist, instead of refusing the event"
    )

    # Loops
    batch_size: int = _whole(500, 1, MAX_BATCH, "rows per statement")
    poll_interval: timedelta = _seconds(0.5, 0.01, HOUR, "longest wait of an idle loop")
    drain: timedelta = _seconds(40, 0, HOUR, "how long a stopping process may take to finish its work")
    heartbeat: timedelta = _seconds(5, 0.05, 300, "how often a process reports that it is alive")
    process_expiry: timedelta = _seconds(
        300, 1, DAY, "time without a heartbeat after which a process is removed from the list"
    )

    # The database
    database_lock_limit: timedelta = _seconds(
        60, 20, DAY, "how long the locks of a process that has vanished may remain in the database"
    )

    # Readiness
    probes: str = _setting(
        "", _address, "address at which run_web and run_hub --web also serve /healthz and /readyz; empty: none"
    )
    stuck_after: timedelta = _seconds(
        120, 1, DAY, "age of ready work that no loop has taken, after which /readyz reports it"
    )

    # Workflows
    workflow_definitions: tuple[Path, ...] = _setting(
        (), _folders, "folders of workflow definitions (*.toml); without it, no workflow is tracked"
    )

    # Stats
    stats_by_minute: timedelta = _seconds(
        6 * HOUR, 120, 30 * DAY, "how long counters are kept by the minute; by the hour after that"
    )
    stats_by_hour: timedelta = _seconds(90 * DAY, 2 * HOUR, 3650 * DAY, "how long counters are kept by the hour")
    metrics_networks: tuple[Network, ...] = _setting((), _networks, "networks that may read /metrics")
    metrics_token: str = _setting("", _token, "bearer token that may read /metrics", secret=True)

    # Logs
    log_level: str = _setting("INFO", _one_of("DEBUG", "INFO", "WARNING", "ERROR"), "lowest severity that is logged")
    log_format: str = _setting("auto", _one_of("auto", "json", "text"), "auto: text on a terminal, JSON elsewhere")


# The kinds of loops; `run_<kind>` starts one.
KINDS = ("router", "orchestrator", "worker", "cleaner", "workflows")

# A database URL for each kind of process that run_hub starts. Only run_hub reads them: they contain passwords.
PROCESS_DATABASE_URLS = {kind: f"{PREFIX}{kind.upper()}_DATABASE_URL" for kind in (*KINDS, "web")}

# The database user with which the web server stores events.
INGEST_DATABASE_URL = f"{PREFIX}INGEST_DATABASE_URL"

# Read elsewhere, not part of HubSettings.
OTHER_NAMES = {*PROCESS_DATABASE_URLS.values(), INGEST_DATABASE_URL, "WEBHOOKHUB_STAFF_PASSWORD"}


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
    loaded = HubSettings(**values)
    _check_timeouts(loaded)
    _check_log_in(loaded)
    return loaded


def _check_timeouts(loaded: HubSettings) -> None:
    needed = loaded.request_timeout + loaded.lease_margin
    if loaded.lease <= needed:
        # Otherwise a slow endpoint would regularly get a request twice.
        raise ImproperlyConfigured(
            f"{variable('lease')} is {loaded.lease.total_seconds():g} s: it must be longer than "
            f"{variable('request_timeout')} and {variable('lease_margin')} together, {needed.total_seconds():g} s"
        )
    if loaded.connect_timeout > loaded.request_timeout:
        raise ImproperlyConfigured(
            f"{variable('connect_timeout')} is {loaded.connect_timeout.total_seconds():g} s: it must not be longer "
            f"than {variable('request_timeout')}, {loaded.request_timeout.total_seconds():g} s"
        )


def _check_log_in(loaded: HubSettings) -> None:
    needed = ("public_url", "oidc_client_id", "oidc_client_secret", "oidc_groups")
    missing = [variable(name) for name in needed if not getattr(loaded, name)]
    if loaded.oidc_issuer and missing:
        raise ImproperlyConfigured(f"{variable('oidc_issuer')} is set: {' and '.join(missing)} must be set, too")
    if not loaded.password_log_in and not loaded.oidc_issuer:
        raise ImproperlyConfigured(
            f"{variable('password_log_in')} is off and {variable('oidc_issuer')} is not set: nobody could log in"
        )


def database(url: str, name: str, *, lock_limit: timedelta) -> dict[str, Any]:
    """Django's settings of the database at `url`, the value of the variable `name`."""
    try:
        if "://" not in url:
            raise ValueError
        config: dict[str, Any] = environ.Env.db_url_config(url)
    except ValueError:
        # The URL is not shown: an unescaped / in a password makes a part of the password look like a host.
        raise ImproperlyConfigured(
            f"{name} cannot be read: it must be {vendors.URL_FORM}, with a number for the port and signs such as / @ : "
            "in the password written as %2F %40 %3A"
        ) from None
    try:
        required = vendors.database_settings(config.get("ENGINE", ""), int(lock_limit.total_seconds()))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None
    # The URL's query may add options (TLS, for instance) but not replace the required ones.
    return {
        **config,
        **required,
        "OPTIONS": {**config.get("OPTIONS", {}), **required["OPTIONS"]},
        "CONN_MAX_AGE": 60,
    }


# Cached: every delivery reads settings several times, and Django's lazy settings are slow.
@cache
def hub() -> HubSettings:
    """The settings in force."""
    return settings.WEBHOOKHUB


@receiver(setting_changed)
def _clear_cache(*, setting: str, **_: object) -> None:
    """Only tests change settings while a process runs."""
    if setting == "WEBHOOKHUB":
        hub.cache_clear()
