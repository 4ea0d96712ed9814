"""compose.yaml: known settings with valid values, real files, hardened containers, volumes for what must stay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from webhookhub import conf

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
HUB = [name for name, service in SERVICES.items() if service["image"] == "webhookhub"]


def variables(file: str) -> dict[str, str]:
    lines = (DEPLOY / file).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def filled(text: str, values: dict[str, str]) -> str:
    """`${NAME:-default}` replaced as compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: values.get(match[1]) or match[2], text)


@pytest.mark.parametrize("sample", [False, True])
def test_settings_are_known_and_valid(sample: bool, tmp_path: Path):
    values = variables("sample.env") if sample else {}
    if sample:
        bundle = tmp_path / "authority.pem"
        bundle.write_text("-----BEGIN CERTIFICATE-----")
        values["WEBHOOKHUB_CA_BUNDLE"] = str(bundle)
    environment = {name: filled(text, values) for name, text in SERVICES["hub"]["environment"].items()}

    loaded = conf.load(environment)
    subnet = COMPOSE["networks"]["sample"]["ipam"]["config"][0]["subnet"]
    assert [str(network) for network in loaded.allowed_networks] == ([subnet] if sample else [])


def test_the_sample_settings_reach_the_hub():
    assert {name for name in variables("sample.env") if name.startswith(conf.PREFIX)} <= set(
        SERVICES["hub"]["environment"]
    )
    assert SERVICES["receiver"]["profiles"] == [variables("sample.env")["COMPOSE_PROFILES"]]


@pytest.mark.parametrize("name", HUB)
def test_containers_of_the_hub_are_hardened(name: str):
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["build"]["dockerfile"] == "deploy/Dockerfile"


@pytest.mark.parametrize("name", SERVICES)
def test_mounted_files_exist_and_named_volumes_are_declared(name: str):
    for volume in SERVICES[name]["volumes"]:
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / source).exists(), source
        else:
            assert source in COMPOSE["volumes"], source


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_that_exist(name: str):
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        assert wait["condition"] in ("service_completed_successfully", "service_healthy")
        assert wait.get("required", True) is ("profiles" not in SERVICES[other])


def test_the_hub_runs_a_command_that_exists_on_loopback_only():
    assert SERVICES["hub"]["command"][0] in get_commands()
    assert [filled(port, {}) for port in SERVICES["hub"]["ports"]] == ["127.0.0.1:8000:8000"]


def test_the_database_is_a_supported_mysql_and_keeps_its_data():
    version = SERVICES["database"]["image"].removeprefix("mysql:")

    assert tuple(map(int, version.split("."))) >= (8, 4)
    assert "database:/var/lib/mysql" in SERVICES["database"]["volumes"]
    assert "ports" not in SERVICES["database"]
