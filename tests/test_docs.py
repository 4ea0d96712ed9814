"""The documentation agrees with the code, and its links work."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import get_commands

from sagas import transitions
from tools import reference_tables
from webhookhub.conf import OTHER_NAMES, HubSettings, variable

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FOLDERS = [path.name for path in ROOT.iterdir() if path.is_dir()]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def test_settings_table_lists_every_setting():
    documented = set(re.findall(r"^\| `(WEBHOOKHUB_\w+)`", (DOCS / "configure.md").read_text(), re.MULTILINE))
    assert documented == {variable(item.name) for item in fields(HubSettings)} | OTHER_NAMES


@pytest.mark.parametrize("name", reference_tables.TABLES)
def test_generated_table_is_current(name: str):
    pages = [page for page in PAGES if f"<!-- generated: {name} -->" in page.read_text()]
    assert pages
    for page in pages:
        text = page.read_text()
        assert text == reference_tables.rewrite(text), f"run `python -m tools.reference_tables` for {page.name}"


def test_state_diagram_is_the_transition_table():
    assert transitions.diagram() in (DOCS / "architecture.md").read_text()


@pytest.mark.requirement("R1-6.2b", "R1-8.2c")
def test_retry_policy_is_documented():
    retries = (DOCS / "architecture.md").read_text().partition("## Retries\n")[2].partition("\n## ")[0]
    assert "finished_at + min(base_delay × 2^(attempt_count − 1), max_delay)" in retries
    assert "`final_error_code` stays after a success" in retries


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_work(page: Path):
    for target, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", page.read_text()):
        linked = page.parent / target if target else page
        assert linked.exists(), f"links to {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in _anchors(linked), f"links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_commands_and_modules_exist(page: Path):
    text = page.read_text()
    for path in re.findall(rf"(?<![\w/])((?:{'|'.join(FOLDERS)})/[\w/]+\.(?:py|md|toml|po))\b", text):
        assert (ROOT / path).exists(), path
    assert set(re.findall(r"\bmanage\.py (\w+)", text)) <= set(get_commands())
    assert set(re.findall(r"\bmake ([a-z-]+)(?=[ `\n]*(?:`|ARGS|LANES|#|\n))", text)) <= TARGETS
    for module in re.findall(r"\bpython -m ((?:tools|tests|sagas|webhookhub)[\w.]*)", text):
        assert find_spec(module), module


def _anchors(page: Path) -> set[str]:
    """GitHub's anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index():
    index = (DOCS / "README.md").read_text()
    for page in DOCS.rglob("*.md"):
        assert page.name == "README.md" or f"]({page.relative_to(DOCS)})" in index, page.name
