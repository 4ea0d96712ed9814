"""What is kept of a receiver's answer: bounded, and text whatever came."""

from __future__ import annotations

SNIPPET_LENGTH = 1000


def snippet(text: str) -> str:
    # Control characters (NUL, escape sequences) would do things to terminals and databases.
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)[:SNIPPET_LENGTH]
