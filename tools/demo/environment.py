"""Settings of the demo's processes: a private certificate authority, endpoints on loopback, short retry delays."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import certifi

from tools.demo import certificates, folders
from webhookhub.conf import PREFIX
from webhookhub.crypto import key_from_file, new_key

SETTINGS = {
    "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
    "WEBHOOKHUB_ALLOWED_PORTS": "443,8443,1024-65535",
    "WEBHOOKHUB_BASE_DELAY": "0.5",
    "WEBHOOKHUB_MAX_RETRY_LIMIT": "5",
    "WEBHOOKHUB_POLL_INTERVAL": "0.1",
    "WEBHOOKHUB_LOG_LEVEL": "WARNING",
    "WEBHOOKHUB_WORKFLOW_DEFINITIONS": str(folders.SAMPLE_WORKFLOWS),
}


def prepare(folder: Path, *, scratch_database: bool) -> None:
    """Creates certificates, sets the environment variables and sets up Django."""
    authority, _ = certificates.write(folder)
    bundle = folder / "bundle.pem"
    bundle.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.read_bytes())
    os.environ["WEBHOOKHUB_CA_BUNDLE"] = str(bundle)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if scratch_database:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder / 'demo.sqlite3'}"
        os.environ.setdefault("WEBHOOKHUB_SECRET_KEY", "a temporary database needs no secret")
        os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", new_key())
    elif os.environ.get("DATABASE_URL"):
        # Kept in a file, so that a second run on the same database can decrypt its secrets.
        os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", key_from_file(folder / "encryption-key"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()


def write_for_shells(file: Path) -> None:
    """Writes the hub's settings as shell assignments, for commands in another terminal."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX) or name == "DATABASE_URL"}
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(settings.items())))
