"""The Content-Security-Policy of the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from webhookhub.console.middleware import POLICY

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.django_db
def test_every_page_has_a_policy(superuser: Client, client: Client):
    assert superuser.get(reverse("admin:index"))["Content-Security-Policy"] == POLICY
    assert client.get(reverse("admin:login"))["Content-Security-Policy"] == POLICY


def test_a_page_with_a_stricter_policy_keeps_it(client: Client):
    assert "form-action 'none'" in client.get("/api/docs")["Content-Security-Policy"]


def test_the_policy_allows_no_other_host_and_no_inline_script():
    allowed = dict(part.split(" ", 1) for part in POLICY.split("; "))

    assert allowed["default-src"] == "'none'"
    assert "unsafe-inline" not in allowed["script-src"]
    assert not re.search(r"https?:|\*|//", POLICY)


def test_no_template_holds_a_script_or_a_handler():
    for template in (ROOT / "templates").rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|javascript:", text), template
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text), template
