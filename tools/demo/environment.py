"""What the demo's processes are told: a private authority, loopback allowed, quick retries."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import certifi

from tools.demo import certificates
from webhookhub.conf import PREFIX
from webhookhub.crypto import key_from_file, new_key

SETTINGS = {
    "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
    "WEBHOOKHUB_ALLOWED_PORTS": "443,8443,1024-65535",
    "WEBHOOKHUB_BASE_DELAY": "0.5",
    "WEBHOOKHUB_MAX_RETRY_LIMIT": "5",
    "WEBHOOKHUB_POLL_INTERVAL": "0.1",
    "WEBHOOKHUB_LOG_LEVEL": "WARNING",
}


def prepare(folder: Path, *, scratch_database: bool) -> None:
    """Make certificates, set the environment and set Django up."""
    authority, _ = certificates.write(folder)
    bundle = folder / "bundle.pem"
    bundle.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.read_bytes())
    os.environ["WEBHOOKHUB_CA_BUNDLE"] = str(bundle)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if scratch_database:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder / 'demo.sqlite3'}"
        os.environ.setdefault("WEBHOOKHUB_SECRET_KEY", "a scratch database needs no secret")
        os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", new_key())
    elif os.environ.get("DATABASE_URL"):
        # Made once and kept, so that a second run on the same server can still read the first one's secrets.
        os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", key_from_file(folder / "encryption-key"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()


def write_for_shells(file: Path) -> None:
    """Write what the hub was told in a form that a shell reads, for commands beside it."""
    told = {name: value for name, value in os.environ.items() if name.startswith(PREFIX) or name == "DATABASE_URL"}
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(told.items())))
