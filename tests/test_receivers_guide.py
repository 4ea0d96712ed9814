"""Runs the programs of docs/receivers.md. The slow ones are in tests/nightly/receivers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from events.intake import publish
from subscriptions import secrets
from subscriptions.sample_delivery import send_test
from subscriptions.signing import new_secret
from tests.factories import SubscriptionFactory
from tests.support import drive
from tests.support.guide_receivers import GUIDE, check, programs, running
from tools.demo.endpoint import HttpsEndpoint
from tools.support.ports import free_port

pytestmark = pytest.mark.django_db

DJANGO_SETTINGS = """
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "received.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["hooks"]
ROOT_URLCONF = "urls"
SECRET_KEY = "only for tests"
WEBHOOK_SECRET = "%s"
"""
DJANGO_URLS = """
from django.urls import path
from hooks.views import receive
urlpatterns = [path("hook", receive)]
"""


@pytest.fixture
def certificate(certificate_files: tuple[Path, Path], hub_settings: Callable[..., None]) -> Path:
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority))
    return server


def test_header_table_marks_headers_that_only_events_have(endpoint: HttpsEndpoint):
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", GUIDE, re.MULTILINE))
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())
    publish(subscription.event_type, {})
    drive.until_terminal()
    send_test(subscription)
    event, test = (set(request.headers) for request in endpoint.received)

    assert set(rows) <= event
    assert {name for name, meaning in rows.items() if meaning.endswith("events only")} == event - test


def test_django_receiver(certificate: Path, tmp_path: Path):
    secret, port = new_secret("v1"), free_port()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "__init__.py").touch()
    models, views = programs("Django")
    (hooks / "models.py").write_text(models)
    (hooks / "views.py").write_text(views)
    (tmp_path / "settings.py").write_text(DJANGO_SETTINGS % secret)
    (tmp_path / "urls.py").write_text(DJANGO_URLS)
    environment = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path)}
    django = [sys.executable, "-m", "django"]
    subprocess.run(
        [*django, "migrate", "--run-syncdb"],
        cwd=tmp_path,
        env=os.environ | environment,
        check=True,
        capture_output=True,
    )

    command = [*django, "runserver", "--noreload", f"127.0.0.1:{port}"]
    with running(command, port, secret, tmp_path, **environment) as process:
        check(process, certificate)


@pytest.mark.skipif(not shutil.which("php"), reason="needs PHP")
def test_php_receiver(certificate: Path, tmp_path: Path):
    (tmp_path / "receiver.php").write_text(programs("PHP")[0])

    port = free_port()
    with running(["php", "-S", f"127.0.0.1:{port}", "receiver.php"], port, new_secret("v1"), tmp_path) as process:
        check(process, certificate)


def test_python_check_with_a_public_key(endpoint: HttpsEndpoint):
    namespace: dict[str, Any] = {}
    exec(GUIDE.partition("## Public keys")[2].partition("```python\n")[2].partition("```")[0], namespace)
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), signing_scheme="v1a")
    send_test(subscription)
    request = endpoint.received[-1]
    is_genuine, public_key = namespace["is_genuine"], secrets.reveal(subscription)
    headers = {name.title(): value for name, value in request.headers.items()}

    assert is_genuine(public_key, headers, request.body)
    assert not is_genuine(public_key, headers, request.body + b" ")
    assert not is_genuine(public_key, headers | {"Webhook-Signature": "v1a,AAAA"}, request.body)
    assert not is_genuine(public_key, {}, request.body)
