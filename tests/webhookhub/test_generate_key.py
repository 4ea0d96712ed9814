"""How a new installation comes by its first key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from webhookhub import conf, crypto

ROOT = Path(__file__).resolve().parent.parent.parent
# An installation with a database of its own, before it has a key.
KEYLESS = {name: value for name, value in os.environ.items() if not name.startswith(conf.PREFIX)} | {
    "DATABASE_URL": "sqlite:////nowhere/hub.sqlite3",
    "DJANGO_SETTINGS_MODULE": "webhookhub.settings",
    "WEBHOOKHUB_SECRET_KEY": "only for tests",
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=KEYLESS | environment, capture_output=True, text=True
    )


def test_what_the_missing_keys_message_recommends_makes_a_key_before_there_is_one():
    refused = run("manage.py", "check")
    assert "WEBHOOKHUB_ENCRYPTION_KEYS is not set" in refused.stderr
    [command] = re.findall(r"manage\.py (\w+)", refused.stderr)

    done = run("manage.py", command)

    assert (done.returncode, done.stderr) == (0, "")
    key = done.stdout.rstrip("\n")
    assert conf.load({"WEBHOOKHUB_ENCRYPTION_KEYS": key}).encryption_keys == (key,)


def test_the_installation_guide_makes_a_key_and_exports_all_required_settings():
    guide = (ROOT / "docs" / "install.md").read_text()
    [deploy] = [block for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "make setup" in block]
    order = [deploy.index(each) for each in ("make setup", "manage.py generate_key", "manage.py migrate")]
    assert order == sorted(order)
    exported = re.findall(r"^export (WEBHOOKHUB_\w+)=", deploy[: order[-1]], re.MULTILINE)

    values = dict.fromkeys(exported, crypto.new_key()) | {
        "WEBHOOKHUB_PUBLIC_URL": "https://hub.example.com",
        "WEBHOOKHUB_TRUSTED_PROXIES": "127.0.0.1",
    }
    assert run("manage.py", "check", **values).returncode == 0
