"""The Traditional Chinese translation is complete, compiled and used."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation
from django.utils.translation.template import templatize

from subscriptions.forms import SubscriptionForm
from subscriptions.verification import describe
from tests.factories import SubscriptionFactory
from tests.support import rows
from tests.test_architecture import ALLOWED
from webhookhub.egress.error_codes import MEANING

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "locale" / "zh_Hant" / "LC_MESSAGES"
MARKS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w*\}")
# The terms of docs/glossary.md.
TERMS = {
    "delivery|deliveries": "投遞",
    "attempts?": "嘗試",
    "dead letters?": "死信",
    "requeued?|requeues": "排入",
    "endpoints?": "端點",
    "subscriptions?": "訂閱",
    "events?": "事件",
    "workflows?": "工作流程",
    "process|processes": "行程",
    "workers?": "工作行程",
    "operators?": "維運人員",
    "receivers?": "接收端",
    "payload": "酬載",
    "audit log": "稽核紀錄",
    "callback URL": "回呼網址",
    "signing secret": "密鑰",
}


def entries() -> list[dict[str, str]]:
    """All entries of the .po file except the first, which is the header."""
    result = []
    for block in (FOLDER / "django.po").read_text().strip().split("\n\n"):
        entry: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            match = re.match(r'(msg\w+(?:\[0\])?) (".*")', line)
            if match:
                name = match[1]
                entry[name] = ast.literal_eval(match[2])
            elif line.startswith('"'):
                entry[name] += ast.literal_eval(line)
            elif line.startswith("#,"):
                entry["flags"] = line
        result.append(entry)
    return result[1:]


def translated() -> dict[str, str]:
    return {entry["msgid"]: entry.get("msgstr") or entry.get("msgstr[0]", "") for entry in entries()}


def marked() -> Iterator[tuple[str, str]]:
    """Each text that is marked for translation, and its file."""
    for package in ALLOWED:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
                    first = node.args[0] if node.args else None
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        yield first.value, str(file.relative_to(ROOT))
    for file in (ROOT / "templates").rglob("*.html"):
        text = templatize(file.read_text(), origin=str(file))
        for quoted in re.findall(r"""\b(?:n?gettext|_)\(\s*u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", text):
            yield ast.literal_eval(quoted), str(file.relative_to(ROOT))


def test_no_entry_is_empty_or_fuzzy():
    assert len(entries()) > 300
    assert [entry["msgid"] for entry in entries() if "fuzzy" in entry.get("flags", "")] == []
    assert [text for text, chinese in translated().items() if not chinese.strip()] == []


@pytest.mark.parametrize(("word", "term"), TERMS.items())
def test_each_term_has_one_translation(word: str, term: str):
    texts = {PLACEHOLDER.sub("", text): chinese for text, chinese in translated().items()}
    about = {text: chinese for text, chinese in texts.items() if re.search(rf"\b(?:{word})\b", text, re.IGNORECASE)}

    assert len(about) > 3
    assert {text: chinese for text, chinese in about.items() if term not in chinese} == {}


def test_a_signing_secret_is_not_called_a_key():
    texts = {text: chinese for text, chinese in translated().items() if "signing secret" in text.lower()}

    assert [text for text, chinese in texts.items() if "金鑰" in chinese] == []


def test_every_marked_text_is_translated():
    known = translated()

    missing = sorted({f"{where}: {text!r}" for text, where in marked() if text not in known})

    assert not missing, "make messages, then translate:\n" + "\n".join(missing)


def test_placeholders_are_the_same_in_both_languages():
    for entry in entries():
        chinese = entry.get("msgstr") or entry["msgstr[0]"]
        expected = PLACEHOLDER.findall(entry.get("msgid_plural") or entry["msgid"])
        assert sorted(PLACEHOLDER.findall(chinese)) == sorted(expected), entry["msgid"]
        assert entry["msgid"].count("<") == chinese.count("<"), entry["msgid"]


def test_the_compiled_file_is_up_to_date():
    with (FOLDER / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)

    known = translated()
    for entry in entries():
        text, plural = entry["msgid"], entry.get("msgid_plural")
        assert (compiled.ngettext(text, plural, 1) if plural else compiled.gettext(text)) == known[text]
    catalogue = compiled._catalog  # type: ignore[attr-defined]
    assert {key if isinstance(key, str) else key[0] for key in catalogue} - {""} == set(known)


def test_every_error_meaning_is_translated():
    assert set(MEANING.values()) <= set(translated())


@pytest.fixture
def reader(db: None) -> Iterator[Client]:
    """A superuser with the Accept-Language header of a browser in Taiwan."""
    client = Client(headers={"accept-language": "zh-TW,zh;q=0.9,en;q=0.8"})
    client.force_login(User.objects.create_superuser("root"))
    yield client
    translation.deactivate()  # the request left its language in the thread


def test_a_browser_in_taiwan_gets_chinese_pages(reader: Client):
    letter = rows.dead_letter("http_503")

    overview = reader.get(reverse("admin:index")).content.decode()
    delivery = reader.get(rows.change("sagas_saga", letter.saga_id)).content.decode()
    listing = reader.get(rows.listing("sagas_saga")).content.decode()

    assert '<html lang="zh-hant"' in overview
    assert "成功率" in overview
    assert "端點回應 503" in delivery
    assert "第 3 次嘗試失敗" in delivery
    assert "下次嘗試" in listing


def test_english_is_the_default(superuser: Client):
    assert "Success rate" in superuser.get(reverse("admin:index")).content.decode()


def test_the_chosen_language_overrides_the_browser(reader: Client):
    assert "繁體中文" in reader.get(reverse("admin:index")).content.decode()

    reader.post(reverse("set_language"), {"language": "en", "next": "/admin/"})

    assert "Success rate" in reader.get(reverse("admin:index")).content.decode()


def test_the_api_is_not_translated(reader: Client):
    response = reader.get("/api/v1/nothing", headers={"accept-language": "zh-TW"})

    assert response.content.isascii()
    assert "Content-Language" not in response


def test_every_page_can_be_opened_in_chinese(reader: Client):
    for name, pk in rows.one_of_each("http_503").items():
        assert reader.get(rows.listing(name)).status_code == 200
        assert reader.get(rows.change(name, pk)).status_code == 200
    assert reader.get(rows.add("subscriptions_subscription")).status_code == 200
    assert reader.get(reverse("admin:search"), {"q": "x"}).status_code == 200


CHINESE = re.compile("[\u4e00-\u9fff]")
SUBSCRIPTION = {"event_type": "order.created", "callback_url": "https://127.0.0.1:1025/hook", "signing_scheme": "v1"}
INVALID = [
    {"event_type": ""},
    {"event_type": "a b"},
    {"event_type": "x" * 101},
    {"callback_url": ""},
    {"callback_url": "http://127.0.0.1/"},
    {"callback_url": "https://127.0.0.1:22/"},
    {"callback_url": "https://u:p@127.0.0.1/"},
    {"callback_url": "https://10.1.2.3/"},
    {"callback_url": "https://hooks..example.com/"},
    {"callback_url": "https://hooks.example.com/" + "x" * 500},
    {"max_retry_limit": "0"},
    {"base_delay": "soon"},
    {"retry_delays": "soon"},
    {"retry_delays": "5", "max_retry_limit": "3"},
    {"headers": "no header"},
    {"headers": "Host: a"},
    {"headers": "X-A: 1\nX-A: 2"},
    {"signing_scheme": "v9"},
    {},
]


@pytest.mark.django_db
def test_errors_of_the_subscription_form_are_translated():
    SubscriptionFactory(event_type=SUBSCRIPTION["event_type"], callback_url=SUBSCRIPTION["callback_url"])

    with translation.override("zh-hant"):
        for invalid in INVALID:
            errors = [
                str(error) for field in SubscriptionForm(SUBSCRIPTION | invalid).errors.values() for error in field
            ]
            assert errors, invalid
            assert [error for error in errors if not CHINESE.search(error)] == []


def test_errors_of_the_forms_are_translated_on_their_pages(reader: Client):
    pk = rows.one_of_each()["subscriptions_subscription"]
    subscription = reader.post(rows.add("subscriptions_subscription"), SUBSCRIPTION | {"callback_url": "http://a/"})
    backfill = reader.post(reverse("admin:subscription_backfill", args=[pk]), {"since": "soon"})
    pause = reader.post(reverse("admin:subscriptions_subscription_pause", args=[pk]), {"reason": " "})
    letters = reader.get(rows.listing("deadletters_deadletter", "?since=soon&subscription=x&event_type=%20a"))
    key = reader.post(rows.add("api_apikey"), {"name": " \u0007", "scopes": ["subscriptions:write"], "source": "shop"})

    forms = [
        subscription.context["adminform"].form,
        backfill.context["form"],
        pause.context["form"],
        letters.context["cl"].filter_form,
        key.context["adminform"].form,
    ]

    for form in forms:
        errors = [error for field in form.errors.values() for error in field]
        assert errors
        assert [error for error in errors if not CHINESE.search(error)] == []


@pytest.mark.parametrize(
    ("stored", "chinese"),
    [
        ("challenge_returned", "端點已送回驗證碼"),
        ("challenge_missing", "端點沒有送回驗證碼"),
        ("http_503", "端點回應 503"),
        ("timeout", "端點沒有及時回應"),
        ("<b>unknown</b>", "<b>unknown</b>"),
    ],
)
def test_verification_results_are_translated(stored: str, chinese: str):
    with translation.override("zh-hant"):
        assert describe(stored) == chinese


def test_verification_results_are_translated_and_escaped_on_the_page(reader: Client):
    for stored, shown in (
        ("http_503", "端點回應 503"),
        ("<b>unknown</b>", "&lt;b&gt;unknown&lt;/b&gt;"),
    ):
        subscription = SubscriptionFactory.create(verification_result=stored)

        assert shown in reader.get(rows.change("subscriptions_subscription", subscription.pk)).content.decode()


def test_the_title_of_a_page_is_translated(reader: Client):
    letter = rows.dead_letter()

    for name, pk, title in (
        ("sagas_saga", letter.saga_id, f"投遞 {letter.saga_id}"),
        ("deadletters_deadletter", letter.pk, f"死信 {letter.pk}"),
    ):
        assert f">{title}</a>" in " ".join(reader.get(rows.change(name, pk)).content.decode().split())
