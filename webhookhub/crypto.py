"""Encryption of the secrets in the database.

There may be several keys: the first encrypts, all decrypt, so a key can be replaced while the hub runs.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from webhookhub.conf import hub


class Undecipherable(Exception):
    """No key in use decrypts this text."""


def encrypt(text: str) -> str:
    return _fernet(hub().encryption_keys).encrypt(text.encode()).decode("ascii")


def decrypt(token: str) -> str:
    try:
        return _fernet(hub().encryption_keys).decrypt(token.encode()).decode()
    except InvalidToken:
        raise Undecipherable("none of WEBHOOKHUB_ENCRYPTION_KEYS decrypts a stored secret") from None


def opens(token: str) -> bool:
    """Whether a key in use decrypts it."""
    try:
        decrypt(token)
    except (Undecipherable, ValueError):  # ValueError: there are no keys at all
        return False
    return True


def with_first_key(token: str) -> str:
    """The same text, encrypted again with the first key."""
    return encrypt(decrypt(token))


def new_key() -> str:
    return Fernet.generate_key().decode("ascii")


def key_from_file(path: Path) -> str:
    """The key stored in `path`, created at the first call: for installations without configuration."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(new_key())
    return path.read_text().strip()


@lru_cache(maxsize=8)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
