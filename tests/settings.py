"""The product's settings, pointed at TEST_DATABASE_URL (a MySQL-family server) or at SQLite, with quick retries."""

import atexit
import os
import shutil
import tempfile

_database = os.environ.get("TEST_DATABASE_URL", "")
_embedded = not _database
if _embedded:
    # A file and not memory: races need several connections to one database.
    _folder = tempfile.mkdtemp(prefix="webhookhub-test-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    _database = f"sqlite:///{os.path.join(_folder, 'hub.sqlite3')}"
os.environ["DATABASE_URL"] = _database
os.environ.setdefault("WEBHOOKHUB_SECRET_KEY", "only for tests")
os.environ.setdefault("WEBHOOKHUB_ENCRYPTION_KEYS", "b25seSBmb3IgdGVzdHM6IDMyIGJ5dGVzIG9mIGtleSE=")
os.environ.setdefault("WEBHOOKHUB_LOG_FORMAT", "json")
os.environ.setdefault("WEBHOOKHUB_ALLOWED_NETWORKS", "127.0.0.0/8,::1/128")
os.environ.setdefault("WEBHOOKHUB_ALLOWED_PORTS", "443,8443,1024-65535")
os.environ.setdefault("WEBHOOKHUB_BASE_DELAY", "0.05")
os.environ.setdefault("WEBHOOKHUB_MAX_RETRY_LIMIT", "10")
os.environ.setdefault("WEBHOOKHUB_POLL_INTERVAL", "0.05")
os.environ.setdefault(
    "WEBHOOKHUB_WORKFLOW_DEFINITIONS", os.path.join(os.path.dirname(os.path.dirname(__file__)), "workflows", "samples")
)

from webhookhub.settings import *  # noqa: E402, F403

# Each test process has its own database.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
_suffix = "" if _embedded else f"_test_{_worker}".rstrip("_")
DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"] + _suffix}  # noqa: F405
if not _embedded:
    DATABASES["default"]["TEST"] |= {"CHARSET": "utf8mb4"}  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Looks static files up on request. Otherwise every test client would first read all of them.
WHITENOISE_AUTOREFRESH = True
