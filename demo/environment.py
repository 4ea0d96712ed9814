"""What the demo's processes are told: a private authority, loopback allowed, quick retries."""

from __future__ import annotations

import os
from pathlib import Path

import certifi

from demo import certificates
from webhookhub.cipher import key_from_file

FOLDER = Path(__file__).resolve().parent.parent / "var" / "demo"
SCRATCH_DATABASE = FOLDER / "demo.sqlite3"
SERVER_CERTIFICATE = FOLDER / "server.pem"

SETTINGS = {
    "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
    "WEBHOOKHUB_ALLOWED_PORTS": "443,8443,1024-65535",
    "WEBHOOKHUB_BASE_DELAY": "0.5",
    "WEBHOOKHUB_MAX_RETRY_LIMIT": "5",
    "WEBHOOKHUB_POLL_INTERVAL": "0.1",
    "WEBHOOKHUB_LOG_LEVEL": "WARNING",
}


def prepare(*, fresh_database: bool) -> None:
    """Make certificates, set the environment and set Django up. DATABASE_URL, if given, is used as it is."""
    authority, _ = certificates.write(FOLDER)
    bundle = FOLDER / "bundle.pem"
    bundle.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.read_bytes())
    os.environ["WEBHOOKHUB_CA_BUNDLE"] = str(bundle)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # Made once and kept, so that a second run on the same server can still read the first one's secrets.
    if os.environ.get("DATABASE_URL") or fresh_database:
        os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", key_from_file(FOLDER / "encryption-key"))
    if fresh_database and not os.environ.get("DATABASE_URL"):
        for path in FOLDER.glob(f"{SCRATCH_DATABASE.name}*"):
            path.unlink()
        os.environ["DATABASE_URL"] = f"sqlite:///{SCRATCH_DATABASE}"
        os.environ.setdefault("WEBHOOKHUB_SECRET_KEY", "a scratch database needs no secret")
    os.environ["DJANGO_SETTINGS_MODULE"] = "webhookhub.settings"
    import django

    django.setup()
