"""The Helm chart: lint, and every document of its output against the schemas of Kubernetes. compose.yaml likewise.

The programs and schemas come from the Go module proxy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from webhookhub import conf

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "webhookhub"
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
KUBERNETES = "k8s.io/kubernetes@v1.32.0"
COMPOSE = "github.com/compose-spec/compose-go/v2@v2.4.7"
VERSION = KUBERNETES.partition("@v")[2]
# Kept for the next run: compiling helm takes minutes.
CACHE = ROOT / "var" / "deploy" / "go"
EXISTING = ["--set", "secret.existing=hub-settings"]
VALUES = [
    [*EXISTING],
    [
        *EXISTING,
        "--set",
        "autoscaling.enabled=true",
        "--set",
        "ingress.enabled=true",
        "--set",
        "loops.worker.secret=worker",
    ],
    [
        f"--set=secret.values.{name}=x"
        for name in ("DATABASE_URL", "WEBHOOKHUB_SECRET_KEY", "WEBHOOKHUB_ENCRYPTION_KEYS")
    ],
]
pytestmark = pytest.mark.skipif(not GO, reason="needs Go")


def go(*arguments: str) -> str:
    environment = {**os.environ, "GOBIN": str(CACHE), "GOFLAGS": ""}
    result = subprocess.run([str(GO), *arguments], env=environment, capture_output=True, text=True, cwd="/")
    if result.returncode:
        pytest.skip(f"go {' '.join(arguments)} fails here: {(result.stderr or result.stdout)[-300:]}")
    return result.stdout


def program(module: str) -> str:
    path = CACHE / module.partition("@")[0].rpartition("/")[2]
    if not path.exists():
        go("install", module)
    return str(path)


def downloaded(module: str) -> Path:
    return Path(json.loads(go("mod", "download", "-json", module))["Dir"])


def rendered(*values: str) -> str:
    command = [program(HELM), "template", "webhookhub", str(CHART), "--kube-version", VERSION, *values]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def documents(*values: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(rendered(*values)) if document]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One strict schema for each kind, as kubeconform looks for it."""
    specification = json.loads((downloaded(KUBERNETES) / "api" / "openapi-spec" / "swagger.json").read_text())
    definitions = specification["definitions"]
    for name, definition in definitions.items():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
        if name.endswith((".IntOrString", ".Quantity")):
            definition["type"] = ["string", "integer"]
            definition.pop("format", None)
    folder = tmp_path_factory.mktemp("schemas")
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            suffix = "-".join([*([kind["group"].partition(".")[0]] if kind["group"] else []), kind["version"]])
            file = folder / f"{kind['kind'].lower()}-{suffix}.json"
            # Written only if it is used: each has all definitions.
            if kind["kind"] in KINDS and not kind["kind"].endswith("List"):
                file.write_text(json.dumps({"$ref": f"#/definitions/{name}", "definitions": definitions}))
    return folder


KINDS = {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Job", "Secret", "Ingress"}


@pytest.mark.parametrize("values", VALUES, ids=["existing secret", "all options", "own secret"])
def test_documents_are_valid(values: list[str], schemas: Path):
    report = checked(rendered(*values), schemas)

    assert report["summary"] == {"valid": report["summary"]["valid"], "invalid": 0, "errors": 0, "skipped": 0}, report
    assert report["summary"]["valid"] >= 14


def test_a_wrong_field_is_found(schemas: Path):
    report = checked(rendered(*EXISTING).replace("maxUnavailable: 1", "maxUnavailible: 1"), schemas)

    assert report["summary"]["invalid"] == len(conf.KINDS) + 1, report


def checked(text: str, schemas: Path) -> dict[str, Any]:
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [program(KUBECONFORM), "-strict", "-summary", "-output", "json", "-schema-location", location]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    return dict(json.loads(result.stdout))


def test_lint_finds_nothing():
    result = subprocess.run(
        [program(HELM), "lint", "--strict", "--kube-version", VERSION, str(CHART), *EXISTING],
        capture_output=True,
        text=True,
    )

    assert result.returncode == 0, result.stdout


def test_it_is_not_installed_without_secrets():
    command = [program(HELM), "template", str(CHART), "--kube-version", VERSION]
    result = subprocess.run(command, capture_output=True, text=True)

    assert result.returncode
    assert "set secret.existing, or secret.values.DATABASE_URL" in result.stderr


def test_every_pod_is_confined_and_gets_valid_settings():
    pods = [each["spec"]["template"]["spec"] for each in documents(*VALUES[1]) if each["kind"] in ("Deployment", "Job")]

    assert len(pods) == len(conf.KINDS) + 2
    for pod in pods:
        [container] = pod["containers"]
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        conf.load({each["name"]: each["value"] for each in container["env"]})


def test_compose_follows_its_schema():
    schema = json.loads((downloaded(COMPOSE) / "schema" / "compose-spec.json").read_text())
    document = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())

    errors = list(jsonschema_rs.validator_for(schema).iter_errors(document))
    assert [str(error) for error in errors] == []
    assert not jsonschema_rs.validator_for(schema).is_valid({**document, "services": {"hub": {"imag": "webhookhub"}}})
