"""No page in Traditional Chinese has an English word."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.contrib.auth.models import User

from jobs import states
from sagas import transitions
from tests.browser.visitor import Visitor
from workflows import versions
from workflows.state import STATUSES

from .test_every_page import addresses

# Visible texts, labels and tooltips, without the content of users and programs.
TEXTS_OF_A_PAGE = """() => {
  const excluded = "pre, code, script, style, template, datalist, .material-symbols-outlined, [translate=no]";
  const texts = [document.title];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    if (element.closest(excluded)) continue;
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
    else for (const name of ["title", "aria-label", "placeholder", "alt", "data-done", "data-failed", "data-stale"])
      if (element.hasAttribute(name)) texts.push(element.getAttribute(name));
  }
  return texts.map((text) => text.trim()).filter(Boolean);
}"""
# IDs, URLs, event types and codes.
DATA = re.compile(r"[\w*?=&%-]*\d[\w*?=&%-]*|\w+\*+|\w+(?:[._/:@]+[\w*?=&%-]+)+", re.ASCII)
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
# Names, abbreviations and statuses that are not translated.
NAMES = {"WebhookHub", "Webhook", "API", "ID", "UTC", "GMT", "uid", "saga", "https", "LDAP", "timeout"}
NAMES |= {"English", "en", "zh", "hant", "esc", "traceparent", "curl", "KB"}
NAMES |= {*transitions.STATUSES, *states.STATUSES, *STATUSES}
# Content of users and programs.
CONTENT = "root|till|shop|tests|hub|read|payment service|no way back|command line|API key|router|orchestrator|worker"
CONTENT += "|cleaner|workflows|support|operations|auditors"


def content() -> re.Pattern[str]:
    """Also the texts of the workflow definitions; the longest first, because some contain others."""
    texts = CONTENT.split("|")
    for definition in versions.in_force().shown.values():
        texts += [definition.title, definition.description]
        texts += [text for step in definition.steps for text in (step.title, step.key)]
    return re.compile(
        "|".join(rf"\b{re.escape(text)}(?!\.?\w)" for text in sorted(texts, key=len, reverse=True)), re.ASCII
    )


def test_no_page_has_an_english_word_on_it(visitor: Callable[..., Visitor], root: User):
    visit = visitor(root, language="zh-TW")
    english: dict[str, set[str]] = {}
    pages, names = addresses(), content()
    for address in pages:
        page = visit.open(address)
        assert page.locator("html[lang=zh-hant]").count() == 1
        for text in page.evaluate(TEXTS_OF_A_PAGE):
            for word in WORD.findall(DATA.sub(" ", names.sub(" ", text))):
                if word not in NAMES:
                    english.setdefault(f"{word} ({text[:80]})", set()).add(address)

    assert not english, "\n".join(
        f"{word}: {sorted(where)[0]} and {len(where) - 1} more" for word, where in english.items()
    )
