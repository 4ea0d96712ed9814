"""Which callback URLs may be stored and sent to. Resolved addresses are checked at every connection."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, unquote_plus, urlsplit

import idna
from django.utils.translation import gettext as _

from webhookhub.conf import hub

from .addresses import may_reach

MAX_LENGTH = 500
MAX_HOST_LENGTH = 253
MASK = "***"
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)\Z")
IPV6_NETLOC = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?\Z")
# Resolvers read a host whose last label is a number as an address: 127.1, 0x7f.1, 2130706433.
NUMERIC_LABEL = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")


class UnacceptableURL(ValueError):
    """The message says what is wrong and how to fix it."""


class ForbiddenAddress(UnacceptableURL):
    """The host is an address that may not be reached."""


def normalise(url: str) -> str:
    """The URL in its stored form; UnacceptableURL if it is not allowed."""
    if not isinstance(url, str) or not url:
        raise UnacceptableURL(_("The callback URL is empty; give an https:// address."))
    if len(url) > MAX_LENGTH:
        raise UnacceptableURL(
            _("The callback URL has %(count)s characters; at most %(limit)s are allowed.")
            % {"count": len(url), "limit": MAX_LENGTH}
        )
    if any(character.isspace() or not character.isprintable() for character in url):
        raise UnacceptableURL(_("The callback URL holds white space or control characters."))
    if "\\" in url:
        raise UnacceptableURL(_("The callback URL holds a backslash."))
    if not url.lower().startswith("https://"):
        raise UnacceptableURL(_("The callback URL must start with https://."))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UnacceptableURL(_("The callback URL cannot be read: %(error)s.") % {"error": error}) from None
    if "@" in parts.netloc:
        raise UnacceptableURL(_("The callback URL names a user or password; leave them out."))
    if ("[" in parts.netloc or "]" in parts.netloc) and not IPV6_NETLOC.match(parts.netloc):
        # urlsplit ignores text before and after the brackets.
        raise UnacceptableURL(_("The callback URL's host has brackets that do not enclose an IPv6 address."))
    if "#" in url:
        raise UnacceptableURL(_("The callback URL has a fragment (#…); leave it out."))
    host = _host(parts.hostname or "")
    port = _port(parts.netloc, port)
    # ASCII is kept; other characters are encoded once, here.
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?") if parts.query else ""
    normal = f"https://{host}{'' if port == 443 else f':{port}'}{path}{query}"
    if len(normal) > MAX_LENGTH:
        raise UnacceptableURL(
            _("The callback URL has %(count)s characters once encoded; at most %(limit)s are allowed.")
            % {"count": len(normal), "limit": MAX_LENGTH}
        )
    return normal


def masked(url: str) -> str:
    """The URL without query values, user name and password, which may be secrets."""
    address, question_mark, query = url.partition("?")
    scheme, slashes, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    shown = f"{scheme}{slashes}{MASK if at else user}{at}{host}{slash}{path}{question_mark}"
    return shown + "&".join(_without_value(part) for part in query.split("&"))


def query_values(url: str) -> list[str]:
    """The query values that `masked` hides, as written and decoded."""
    parts = url.partition("?")[2].split("&")
    written = [part.partition("=")[2] if "=" in part else part for part in parts]
    return [*written, *(unquote_plus(value) for value in written)]


def host_as_stored(host: str) -> str:
    """This host, or a part of its name, as stored URLs write it, for a search; empty if no URL can contain it."""
    if len(host) > MAX_HOST_LENGTH:
        return ""
    try:
        return f"[{IPv6Address(host).compressed}]" if ":" in host else _in_ascii(host)
    except (AddressValueError, idna.IDNAError):
        return ""


def _in_ascii(host: str) -> str:
    return (host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")).lower()


def _without_value(part: str) -> str:
    name, equals, _value = part.partition("=")
    # Without a name, all of it is the value.
    return f"{name}={MASK}" if equals else MASK if part else ""


def _port(netloc: str, port: int | None) -> int:
    if port is None:
        if netloc.endswith(":"):
            raise UnacceptableURL(_("The callback URL has a colon but no port after its host."))
        return 443
    allowed = hub().allowed_ports
    if not any(low <= port <= high for low, high in allowed):
        shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in allowed)
        raise UnacceptableURL(
            _("The callback URL names port %(port)s; allowed are %(ports)s.") % {"port": port, "ports": shown}
        )
    return port


def _host(host: str) -> str:
    if not host:
        raise UnacceptableURL(_("The callback URL has no host."))
    if "%" in host:
        raise UnacceptableURL(_("The callback URL's host holds a percent sign."))
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            raise UnacceptableURL(_("The callback URL's host is not a valid IPv6 address.")) from None
        _require_reachable(address)
        return f"[{address.compressed}]"
    if host.endswith("."):
        raise UnacceptableURL(_("The callback URL's host ends in a dot; leave it out."))
    try:
        host = _in_ascii(host)
    except idna.IDNAError:
        raise UnacceptableURL(_("The callback URL's host is not a valid international name.")) from None
    if NUMERIC_LABEL.match(host.rsplit(".", 1)[-1]):
        try:
            address4 = IPv4Address(host)
        except AddressValueError:
            raise UnacceptableURL(
                _("The callback URL's host is a number but not an address of the form 203.0.113.7.")
            ) from None
        _require_reachable(address4)
        return str(address4)
    if len(host) > MAX_HOST_LENGTH:
        raise UnacceptableURL(_("The callback URL's host is longer than 253 characters."))
    labels = host.split(".")
    if len(labels) < 2:
        raise UnacceptableURL(_("The callback URL's host must be a full name such as hooks.example.com."))
    for label in labels:
        if not LABEL.match(label):
            raise UnacceptableURL(
                _("The callback URL's host has a part that is not valid: %(part)s.") % {"part": repr(label[:70])}
            )
        if label.startswith("xn--"):
            try:
                idna.decode(label)
            except (idna.IDNAError, UnicodeError):
                raise UnacceptableURL(_("The callback URL's host is not a valid international name.")) from None
    return host


def _require_reachable(address: IPv4Address | IPv6Address) -> None:
    if not may_reach(address):
        raise ForbiddenAddress(_("The callback URL's address may not be reached from this hub."))
