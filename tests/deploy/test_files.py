"""Every file in deploy/: settings and commands that exist, no secrets, no addresses of registries."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands

from webhookhub.conf import KINDS, OTHER_NAMES, HubSettings, variable

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
SETTINGS = {variable(item.name) for item in fields(HubSettings)} | OTHER_NAMES
NAMES = {str(path.relative_to(DEPLOY)): path for path in FILES}
# Text that looks like a secret: keys of the hub, private keys, URLs with a password that is no variable.
SECRETS = re.compile(r"whk_\w|BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@$]+:[^\s@$]+@|\b[A-Za-z0-9_-]{43}=")
HOSTS = re.compile(r"https?://([\w-]+(?:\.[\w-]+)*)")
OWN_HOSTS = re.compile(r"localhost|127\.0\.0\.1|hub\.example\.com|webhookhub")


@pytest.mark.parametrize("name", NAMES)
def test_settings_exist(name: str):
    used = set(re.findall(r"\bWEBHOOKHUB_[A-Z][A-Z_]*\b", NAMES[name].read_text()))

    assert used <= SETTINGS


@pytest.mark.parametrize("name", NAMES)
def test_no_secrets_and_no_foreign_hosts(name: str):
    text = NAMES[name].read_text()

    assert SECRETS.findall(text) == []
    assert [host for host in HOSTS.findall(text) if not OWN_HOSTS.fullmatch(host)] == []


@pytest.mark.parametrize(
    "text",
    [
        "DATABASE_URL=mysql://hub:geheim@database/hub",
        "-----BEGIN EC PRIVATE KEY-----",
        "Bearer whk_abc",
        "WEBHOOKHUB_ENCRYPTION_KEYS=" + "A" * 43 + "=",
    ],
)
def test_a_secret_is_found(text: str):
    assert SECRETS.search(text)


@pytest.mark.parametrize("name", NAMES)
def test_images_are_named_without_a_registry(name: str):
    images = re.findall(r"^\s*(?:FROM|image:|repository:)\s+([\w./:-]+)", NAMES[name].read_text(), re.MULTILINE)

    assert all("/" not in image for image in images), images


@pytest.mark.parametrize("name", NAMES)
def test_commands_exist(name: str):
    """`webhookhub COMMAND` in scripts and units, and `run_…` anywhere."""
    text = "\n".join(line for line in NAMES[name].read_text().splitlines() if not line.lstrip().startswith("#"))
    used = set(re.findall(r"\brun_[a-z]+\b", text))
    if name.endswith((".sh", ".service", "Dockerfile", ".txt")):
        used |= set(re.findall(r"(?:^|\s|/|\()webhookhub ([a-z_]+)\b(?! \\)", text))

    assert used - {"webhookhub"} <= set(get_commands())


def test_the_chart_runs_every_kind_of_loop():
    values = yaml.safe_load((DEPLOY / "helm" / "webhookhub" / "values.yaml").read_text())

    assert sorted(values["loops"]) == sorted(KINDS)


def test_the_chart_has_the_version_of_the_hub():
    import webhookhub

    chart = yaml.safe_load((DEPLOY / "helm" / "webhookhub" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == webhookhub.__version__


def test_stopping_leaves_time_for_running_requests():
    """Every route waits longer than the default drain and the supervisor's margin."""
    from webhookhub.management.commands.run_hub import STOP_MARGIN_SECONDS

    needed = HubSettings().drain.total_seconds() + STOP_MARGIN_SECONDS
    values = yaml.safe_load((DEPLOY / "helm" / "webhookhub" / "values.yaml").read_text())
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    unit = (DEPLOY / "systemd" / "webhookhub-.service.d" / "common.conf").read_text()
    [unit_seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)

    assert values["terminationGracePeriodSeconds"] > needed
    assert int(compose["services"]["hub"]["stop_grace_period"].removesuffix("s")) > needed
    assert int(unit_seconds) > needed


@pytest.mark.parametrize(
    ("name", "limit"), [("nginx/webhookhub.conf", r"size (\d+)m;"), ("haproxy/haproxy.cfg", r"gt (\d{5,})")]
)
def test_proxies_pass_the_largest_batch_and_wait_for_a_verification(name: str, limit: str):
    text = NAMES[name].read_text()
    [size] = re.findall(limit, text)
    [seconds] = re.findall(r"(?:proxy_read_timeout|timeout server) (\d+)s", text)

    assert int(size) * (1 if name.startswith("haproxy") else 2**20) > HubSettings().api_batch_bytes
    assert int(seconds) > HubSettings().request_timeout.total_seconds()
    assert "/metrics" in text


def test_requests_are_not_routed_by_the_state_of_the_whole_hub():
    """A load balancer that asks /readyz would stop ingest because of a backlog or a missing loop."""
    asking = re.compile(r"(GET |path: |uri )/readyz")
    assert [name for name, path in NAMES.items() if asking.search(path.read_text())] == []
    assert "option httpchk GET /healthz" in NAMES["haproxy/haproxy.cfg"].read_text()
    assert NAMES["helm/webhookhub/templates/web.yaml"].read_text().count("path: /healthz") == 3
