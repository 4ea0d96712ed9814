"""Which address and scheme a request has, and what follows from the public URL."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from ipaddress import ip_network
from typing import Any

import pytest

from webhookhub import checks, proxies
from webhookhub.conf import HubSettings, load

PROXY = (ip_network("10.0.0.0/8"),)


def environ(peer: str, **headers: str) -> dict[str, Any]:
    found = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http"}
    found |= {f"HTTP_X_FORWARDED_{name.upper()}": value for name, value in headers.items()}
    proxies.apply(found)
    return found


def test_address_is_the_peer_by_default() -> None:
    for peer in ("203.0.113.1", "127.0.0.1"):
        found = environ(peer, **{"for": "192.0.2.1"})
        assert found["REMOTE_ADDR"] == peer
        assert "HTTP_X_FORWARDED_FOR" not in found


def test_scheme_is_believed_of_this_machine_only() -> None:
    assert environ("127.0.0.1", proto="https")["wsgi.url_scheme"] == "https"
    found = environ("203.0.113.1", proto="https")
    assert found["wsgi.url_scheme"] == "http"
    assert "HTTP_X_FORWARDED_PROTO" not in found
    assert "HTTP_X_FORWARDED_PROTO" not in environ("127.0.0.1", proto="https, http")


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("10.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "1.1.1.1, 192.0.2.1", "192.0.2.1"),  # the client wrote the first one
        ("10.0.0.1", "192.0.2.1, 10.0.0.2", "192.0.2.1"),  # two proxies
        ("10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "garbage", "10.0.0.1"),
        ("10.0.0.1", "192.0.2.1, garbage", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.5", "10.0.0.5"),
        ("::ffff:10.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("203.0.113.1", "192.0.2.1", "203.0.113.1"),  # not a proxy
        ("127.0.0.1", "192.0.2.1", "127.0.0.1"),
    ],
)
def test_trusted_proxy_names_the_client(hub_settings: Any, peer: str, header: str, client: str) -> None:
    hub_settings(trusted_proxies=PROXY)
    assert environ(peer, **{"for": header})["REMOTE_ADDR"] == client


def test_ignored_scheme_is_logged_once(log_stream: io.StringIO) -> None:
    for _ in range(3):
        environ("198.51.100.77", proto="https")
    [line] = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert (line["event"], line["address"]) == ("proxy_untrusted", "198.51.100.77")


def test_missing_trusted_proxy_is_a_warning(hub_settings: Any) -> None:
    hub_settings(public_url="https://hub.example.com")
    assert [problem.id for problem in checks.clients_are_known()] == ["webhookhub.W001"]
    hub_settings(trusted_proxies=PROXY)
    assert checks.clients_are_known() == []


def test_trusted_proxy_names_the_scheme(hub_settings: Any) -> None:
    hub_settings(trusted_proxies=PROXY)
    assert environ("10.0.0.1", proto="https")["wsgi.url_scheme"] == "https"


@pytest.mark.parametrize("url", ["hub.example.com", "ftp://hub", "https://hub/path", "https://a b", "https://u@hub"])
def test_public_url_must_be_scheme_and_host(url: str) -> None:
    with pytest.raises(Exception, match="it must be a scheme and a host, such as https://hub"):
        load({"WEBHOOKHUB_PUBLIC_URL": url})


def test_public_url_is_without_a_slash() -> None:
    assert load({"WEBHOOKHUB_PUBLIC_URL": "https://Hub.example.com/"}).public_url == "https://hub.example.com"
    assert HubSettings().public_url == ""


PROGRAM = """
import django; django.setup()
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from io import StringIO
call_command("migrate", verbosity=0)
out = StringIO()
call_command("check", deploy=True, fail_level="WARNING", stdout=out, stderr=out)
def get(path, **extra):
    response = Client().get(path, **extra)
    return response.status_code, response.headers.get("Location"), response.headers.get("Strict-Transport-Security")
HOST = {"HTTP_HOST": "hub.example.com"}
assert get("/admin/login/", **HOST) == (301, "https://hub.example.com/admin/login/", None)
HTTPS = {**HOST, "HTTP_X_FORWARDED_PROTO": "https"}
page = Client().get("/admin/login/", **HTTPS)
assert page.status_code == 200 and page.headers["Strict-Transport-Security"] == "max-age=31536000", page.headers
for cookie in page.cookies.values():
    assert cookie["secure"] and cookie["samesite"] == "Lax", cookie
assert "csrftoken" in page.cookies
assert get("/healthz", **HOST)[0] == 200  # probes do not use TLS
assert get("/api/v1/subscriptions", **HOST)[0] == 401  # not a redirect: programs inside may use the API without TLS
EVIL = {"HTTP_HOST": "evil.example"}
assert get("/admin/", **EVIL)[1] == "https://hub.example.com/admin/"
assert get("/admin/", **EVIL, HTTP_X_FORWARDED_PROTO="https")[0] == 400
client = Client(enforce_csrf_checks=True)
token = client.get("/admin/login/", **HTTPS).cookies["csrftoken"].value
form = {"username": "a", "password": "", "csrfmiddlewaretoken": token}
post = lambda origin: client.post("/admin/login/", form, HTTP_ORIGIN=origin, **HTTPS).status_code
assert post("https://hub.example.com") == 200
assert post("https://evil.example") == 403
from api import ingest
headers = ingest._headers()
assert headers["Strict-Transport-Security"] == "max-age=31536000" and "Location" not in headers, headers
print("done")
"""


def test_everything_follows_the_public_url(tmp_path: Any) -> None:
    """With the settings of docs/install.md, `check --deploy` has no warnings."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WEBHOOKHUB_")},
        "DJANGO_SETTINGS_MODULE": "webhookhub.settings",
        "DATABASE_URL": f"sqlite:///{tmp_path}/hub.sqlite3",
        "WEBHOOKHUB_SECRET_KEY": "a long random text of one's own, as docs/install.md wants it: 0123456789",
        "WEBHOOKHUB_ENCRYPTION_KEYS": "b25seSBmb3IgdGVzdHM6IDMyIGJ5dGVzIG9mIGtleSE=",
        "WEBHOOKHUB_PUBLIC_URL": "https://hub.example.com",
        "WEBHOOKHUB_TRUSTED_PROXIES": "127.0.0.1",
        "WEBHOOKHUB_LOG_LEVEL": "ERROR",
    }
    result = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert result.stdout.endswith("done\n"), result.stdout + result.stderr
