"""Builds the Dockerfile without a container engine: its steps run in a Debian made by debootstrap."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import dockerfile
from tests.deploy.dockerfile import ROOT, Copy, Stage

# Kept for the next run: downloading it takes minutes.
CACHE = ROOT / "var" / "deploy"
PACKAGES = "python3,python3-venv,libpython3-dev,ca-certificates"  # what the image python:3.11-slim has, too
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MOUNTS = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"'
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"'


class Image:
    """The file system of a stage, and what the stage sets for its processes."""

    def __init__(self, root: Path, stage: Stage, environment: Mapping[str, str]) -> None:
        self.root, self.stage = root, stage
        self.environment = dict(environment)
        self.folder = "/"
        self.user = ""

    def command(
        self,
        arguments: Sequence[str],
        *,
        read_only: bool = False,
        volumes: Sequence[tuple[Path, str, bool]] = (),
        settings: Mapping[str, str] | None = None,
    ) -> list[str]:
        """A command line that runs in the image. `volumes`: source, path in the image, whether it is writable."""
        script, mounted = [MOUNTS], [str(self.root)]
        if read_only:
            script.insert(0, READ_ONLY)
        for source, target, writable in volumes:
            mounted += [str(source), f"{self.root}{target}"]
            bind = f'mount --bind "${{{len(mounted) - 1}}}" "${{{len(mounted)}}}"'
            protect = f' && mount -o remount,bind,ro "${{{len(mounted)}}}"'
            script.append(bind + ("" if writable else protect))
        user = f"--userspec={self.user} " if self.user else ""
        variables = " ".join(
            f"{name}={shlex.quote(value)}" for name, value in {**self.environment, **(settings or {})}.items()
        )
        inside = f"cd {shlex.quote(self.folder)} && exec {shlex.join(arguments)}"
        # The shell inside finds the program by the image's PATH.
        script.append(f'exec chroot {user}"$1" /usr/bin/env -i {variables} {_kept()} /bin/sh -c {shlex.quote(inside)}')
        return ["unshare", "--mount", "sh", "-euc", " && ".join(script), "sh", *mounted]

    def run(self, *arguments: str, **options: Any) -> str:
        result = subprocess.run(self.command(arguments, **options), capture_output=True, text=True)
        assert result.returncode == 0, f"{arguments}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
        return result.stdout


def _kept() -> str:
    """pip's own settings of this machine, such as a mirror."""
    names = [name for name in os.environ if name.startswith("PIP_") and name != "PIP_FIND_LINKS"]
    return " ".join(f"{name}={shlex.quote(os.environ[name])}" for name in names) + " DEBIAN_FRONTEND=noninteractive"


def needs() -> None:
    """Skips where this cannot be tried."""
    if os.geteuid() or not shutil.which("debootstrap", path="/usr/sbin:/usr/bin"):
        pytest.skip("needs root and debootstrap")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")


def base() -> Path:
    """A Debian like this machine's, with Python, from this machine's own mirror."""
    [codename] = re.findall(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    folder: Path = CACHE / codename
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
        )
        mirror = next(line.split()[0] for line in listed.stdout.splitlines() if line.endswith(f" {codename}"))
        new = CACHE / f"{codename}.new"
        shutil.rmtree(new, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", codename, str(new), mirror]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            pytest.skip(f"debootstrap fails here: {result.stdout[-500:]}{result.stderr[-500:]}")
        new.rename(folder)
    return folder


@contextmanager
def temporary(name: str) -> Iterator[Path]:
    """A folder on disk: a whole Debian is too large for a folder in memory."""
    folder = CACHE / f"{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def build(folder: Path) -> Image:
    """Runs all steps of the Dockerfile and returns its last stage."""
    built: dict[str, Image] = {}
    image: Image | None = None
    for number, stage in enumerate(dockerfile.stages(dockerfile.FILE.read_text())):
        root = folder / f"stage-{number}"
        subprocess.run(["cp", "-a", str(base()), str(root)], check=True)
        for file in (Path("/etc/resolv.conf"), CERTIFICATES):
            (root / str(file)[1:]).unlink(missing_ok=True)
            shutil.copyfile(file, root / str(file)[1:])
        image = Image(root, stage, {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        for name, value in stage.steps:
            _step(image, name, value, built)
        built[stage.name] = image
    assert image is not None
    return image


def _step(image: Image, name: str, value: str, built: Mapping[str, Image]) -> None:
    match name:
        case "RUN":
            image.run("sh", "-c", value)
        case "COPY":
            _copy(image, dockerfile.copy_of(value), built)
        case "WORKDIR":
            image.folder = value
            (image.root / value[1:]).mkdir(parents=True, exist_ok=True)
        case "ENV":
            image.environment |= dict(part.split("=", 1) for part in shlex.split(value))
        case "USER":
            image.user = value
        case "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
            pass  # read by the tests
        case _:
            raise NotImplementedError(name)


def _copy(image: Image, step: Copy, built: Mapping[str, Image]) -> None:
    target = image.root / os.path.join(image.folder, step.target)[1:]
    for source in step.sources:
        if step.stage:
            subprocess.run(["cp", "-a", str(built[step.stage].root / source[1:]), str(target)], check=True)
        elif (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=_ignored, dirs_exist_ok=True)
        else:
            assert not dockerfile.ignored(source), source
            shutil.copy(ROOT / source, target)


def _ignored(folder: str, names: list[str]) -> set[str]:
    relative = Path(folder).relative_to(ROOT)
    return {name for name in names if dockerfile.ignored(str(relative / name))}
