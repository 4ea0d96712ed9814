"""Hide secret values that an endpoint's response repeats."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

MASK = "•••"
# A shorter value is an ordinary word; hiding it would make holes in every response.
SHORTEST = 4


def written_forms(values: Iterable[str]) -> tuple[str, ...]:
    """Each value as it is, and as URLs, JSON and HTML write it; longest first, so that no form leaves a rest."""
    forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def mask(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _forms(value: str) -> Iterable[str]:
    in_json = json.dumps(value)[1:-1]
    return (
        value,
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        in_json,
        in_json.replace("/", "\\/"),  # as PHP writes it
        json.dumps(value, ensure_ascii=False)[1:-1],
        html.escape(value),
    )
