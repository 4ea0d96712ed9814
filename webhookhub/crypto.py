"""Encryption of what must not stand in the database in plain text.

Several keys may be given: the first encrypts, all decrypt, so that a key can be replaced without a pause.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from webhookhub.conf import hub


class Undecipherable(Exception):
    """None of the keys in force opens this text."""


def encrypt(text: str) -> str:
    return _fernet(hub().encryption_keys).encrypt(text.encode()).decode("ascii")


def decrypt(token: str) -> str:
    try:
        return _fernet(hub().encryption_keys).decrypt(token.encode()).decode()
    except InvalidToken:
        raise Undecipherable("none of WEBHOOKHUB_ENCRYPTION_KEYS opens a stored secret") from None


def opens(token: str) -> bool:
    """Whether one of the keys in force opens it."""
    try:
        decrypt(token)
    except (Undecipherable, ValueError):  # ValueError: there are no keys at all
        return False
    return True


def with_first_key(token: str) -> str:
    """The same text, encrypted anew with the first key."""
    try:
        return _fernet(hub().encryption_keys).rotate(token.encode()).decode("ascii")
    except InvalidToken:
        raise Undecipherable("none of WEBHOOKHUB_ENCRYPTION_KEYS opens a stored secret") from None


def new_key() -> str:
    return Fernet.generate_key().decode("ascii")


def key_from_file(path: Path) -> str:
    """The key kept in `path`, made at the first call: for installations that need no set-up."""
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
