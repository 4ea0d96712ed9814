"""Who may import whom, who may know a database engine's name, and who may open a connection to the outside.

A new package, or a new reason to reach into another one, is a line in these tables and a thought about the design.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# package → what it may import of the others. The foundation knows no event, saga or job.
ALLOWED: dict[str, set[str]] = {
    "webhookhub": set(),
    "figures": {"webhookhub"},  # counts what others tell it
    "trail": {"webhookhub"},  # is told by others what they do
    "subscriptions": {"webhookhub", "trail.acting", "trail.actions", "trail.record", "trail.admin"},
    "events": {
        "webhookhub",
        "trail.actions",
        "trail.record",
        "subscriptions.cache",
        "sagas.births",
        "sagas.policy",
        "figures.totals",
    },
    "sagas": {
        "webhookhub",
        "events.models",
        "subscriptions.models",
        "jobs.births",
        "jobs.models",
        "jobs.states",
        "deadletters.burial",
        "figures.results",
        "figures.totals",
    },
    "jobs": {
        "webhookhub",
        "figures.tidying",
        "figures.totals",
        "subscriptions.envelope",
        "subscriptions.secrets",
    },
    "deadletters": {
        "webhookhub",
        "trail.actions",
        "trail.record",
        "events.models",
        "sagas.births",
        "sagas.models",
        "sagas.policy",
        "subscriptions.models",
    },
    # Calls what the layers offer, and shows their rows.
    "api": {
        "webhookhub",
        "events.backfill",
        "events.errors",
        "events.intake",
        "events.lookup",
        "events.models",
        "events.payloads",
        "subscriptions.editing",
        "subscriptions.models",
        "subscriptions.secrets",
        "subscriptions.trial",
        "subscriptions.verification",
        "sagas.choice",
        "sagas.models",
        "sagas.transitions",
        "jobs.models",
        "deadletters.bulk",
        "deadletters.choice",
        "deadletters.models",
        "deadletters.requeue",
        "trail.actions",
        "trail.admin",
        "trail.record",
        "workflows",
    },
    # Follows events and publishes some; of deliveries it shows what became of them, and asks for new ones.
    "workflows": {
        "webhookhub",
        "events.intake",
        "events.models",
        "figures.buckets",
        "figures.totals",
        "sagas.models",
        "sagas.repetition",
        "sagas.transitions",
        "deadletters.models",
        "deadletters.requeue",
        "trail.actions",
        "trail.record",
    },
    "monitoring": {  # shows what is kept and what is open, and writes nothing
        "webhookhub",
        "figures",
        "events.models",
        "sagas.models",
        "sagas.transitions",
        "jobs.models",
        "jobs.states",
        "workflows.models",
        "workflows.words",
    },
    "console": {  # the pages that show several layers at once; it writes nothing itself
        "webhookhub",
        "figures",
        "events",
        "sagas",
        "jobs",
        "deadletters",
        "subscriptions",
        "trail.acting",
        "trail.actions",
        "trail.admin",
        "trail.permissions",
        "workflows.badges",
        "workflows.lookup",
        "workflows.models",
    },
    "audit": {"webhookhub"},  # reads every table, in SQL of its own, and writes none
    "roles": {"webhookhub"},  # names tables and permissions; it reaches into no app
    "demo": {"webhookhub", "events", "subscriptions", "sagas", "jobs", "deadletters", "api"},
}
# Pages show rows of every layer side by side; they may read any model and call what is written for looking things up.
PAGES = {"admin.py", "forms.py", "confirmation.py", "lookup.py"}
SHOWN = {"models", "lookup"}

NOT_PRODUCT = {"tests", "bench", "templates", "docs", "var"}
APPS = set(ALLOWED) - {"webhookhub", "demo"}

VENDOR = re.compile(r"mysql|mariadb|sqlite|innodb", re.IGNORECASE)
KNOWS_VENDORS = {
    "webhookhub/db/vendors.py",
    "webhookhub/settings.py",  # the URL of the embedded default
    "demo/environment.py",  # the URL of its scratch database
}

# How rows are written.
WRITING = {"save", "update", "delete", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create"}
STATEMENTS = {"insert_new", "insert_new_selected", "update_each", "delete_each", "add_up"}
# How one row leads to another layer's.
RELATIONS = {"saga", "event", "subscription", "dead_letter"}
MAY_WRITE = {
    ("sagas", "Job"),  # the mark that a result is settled
}

TALKS = {
    "pycurl",
    "requests",
    "httpx",
    "aiohttp",
    "urllib3",
    "urllib.request",
    "http.client",
    "ftplib",
    "smtplib",
    "ssl",
}
SENDERS = {"jobs", "subscriptions", "demo"}


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(module: ast.Module) -> Iterator[str]:
    """Every absolute import, as dotted names; `from a import b` is a.b, for b may be a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def forbidden(package: str, page: bool, module: ast.Module) -> list[str]:
    """Imports of other packages of the product that the table does not allow."""
    allowed = set(ALLOWED[package])
    if page and package in APPS:
        allowed |= {f"{other}.{part}" for other in APPS for part in SHOWN}
    others = set(ALLOWED) - {package}
    return [
        found
        for found in imports(module)
        if found.split(".")[0] in others and not any(within(found, prefix) for prefix in allowed)
    ]


def sleeps_or_rolls_dice(module: ast.Module) -> list[str]:
    found = [each for each in imports(module) if within(each, "signal") or within(each, "random")]
    found += [each for each in imports(module) if each == "time.sleep"]
    return found + [ast.unparse(node) for node in ast.walk(module) if _is_attribute(node, "time", "sleep")]


def vendor_names(module: ast.Module) -> list[str]:
    """Engines named in code: in strings that are no documentation, in names, and by asking a connection."""
    documentation = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(module):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation and VENDOR.search(text):
                found.append(text)
            case ast.Name(id=text) | ast.alias(name=text) if VENDOR.search(text):
                found.append(text)
            case ast.Attribute(attr=text) if VENDOR.search(text) or text == "vendor":
                found.append(text)
    return found


def talks(module: ast.Module) -> list[str]:
    """Ways to open a connection; of `socket`, only the machine's own name is harmless."""
    found = [each for each in imports(module) if any(within(each, prefix) for prefix in TALKS)]
    found += [each for each in imports(module) if each.startswith("socket.")]
    return found + [
        ast.unparse(node)
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "socket"
        and node.attr != "gethostname"
    ]


def models_of(package: str) -> set[str]:
    """The classes that a package's models.py makes tables of, and their managers' classes."""
    file = ROOT / package / "models.py"
    if not file.exists():
        return set()
    return {node.name for node in tree(file).body if isinstance(node, ast.ClassDef)}


def tables_of(package: str) -> set[str]:
    file = ROOT / package / "models.py"
    return set(re.findall(r'db_table = "(\w+)"', file.read_text())) if file.exists() else set()


def foreign_writes(package: str, module: ast.Module) -> list[str]:
    """Writes to what belongs to another package: by its model, through a relation, by its name, or in raw SQL."""
    others = APPS - {package}
    models = {model for other in others for model in models_of(other) if (package, model) not in MAY_WRITE}
    tables = {table for other in others for table in tables_of(other)}
    raw = re.compile(rf"\b(UPDATE|INTO|FROM|TABLE)\s+`?({'|'.join(sorted(tables))})\b") if tables else None
    found = []
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(attr=verb, value=owner)) if verb in WRITING:
                if _root(owner) in models or set(_relations(owner)) & RELATIONS:
                    found.append(ast.unparse(node))
            case ast.Call(func=ast.Name(id=verb), args=[ast.Name(id=model), *_]) if verb in STATEMENTS:
                if model in models:
                    found.append(ast.unparse(node))
            case ast.Call(func=ast.Attribute(attr="get_model"), args=[ast.Constant(value=app), *_]) if app in others:
                found.append(ast.unparse(node))
            case ast.Assign(targets=[ast.Attribute(value=owner)]) if set(_relations(owner)) & RELATIONS:
                found.append(ast.unparse(node))
            case ast.Constant(value=str(text)) if raw and raw.search(text) and not text.lstrip().startswith("SELECT"):
                found.append(text)
    return found


def _root(node: ast.expr) -> str:
    """`Saga` of `Saga.objects.filter(…)`."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _relations(node: ast.expr) -> Iterator[str]:
    """`saga` of `job.saga`, wherever it stands in the chain."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute):
            yield node.attr
            node = node.value
        else:
            node = node.func


def _is_attribute(node: ast.AST, owner: str, attribute: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
    )


def test_every_package_of_the_product_is_in_the_table():
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - NOT_PRODUCT

    assert packages == set(ALLOWED)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_the_table_allows(package: str):
    found = {name(file): forbidden(package, file.name in PAGES, tree(file)) for file in files(package)}

    assert {file: modules for file, modules in found.items() if modules} == {}


@pytest.mark.parametrize("package", sorted(APPS))
def test_the_table_allows_nothing_that_is_not_used(package: str):
    used = {each for file in files(package) for each in imports(tree(file))}

    unused = {prefix for prefix in ALLOWED[package] if not any(within(each, prefix) for each in used)}
    assert unused <= {"events.models"}  # sagas name events through their foreign key


@pytest.mark.parametrize("package", sorted(APPS))
def test_no_app_hears_signals_rolls_dice_or_sleeps(package: str):
    found = {name(file): sleeps_or_rolls_dice(tree(file)) for file in files(package)}

    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_one_file_knows_the_database_engines(package: str):
    found = {name(file): vendor_names(tree(file)) for file in files(package) if name(file) not in KNOWS_VENDORS}

    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize("package", sorted(set(ALLOWED) - {"demo"}))
def test_nothing_but_egress_opens_a_connection_to_the_outside(package: str):
    found = {name(file): talks(tree(file)) for file in files(package)}

    # The client runs in the producers' processes, not in the hub's; a nudge does not leave the machine.
    talkers = ("webhookhub/egress/", "webhookhub/client/", "webhookhub/runner/nudges.py")
    outside = {file: what for file, what in found.items() if what and not file.startswith(talkers)}
    assert outside == {}


def test_the_client_needs_nothing_of_the_hub_and_the_hub_nothing_of_the_client():
    for package in ALLOWED:
        for file in files(package):
            inside = name(file).startswith("webhookhub/client/")
            if name(file).startswith("demo/workflows/"):
                continue  # the shop's services are producers like any other
            own = [each for each in imports(tree(file)) if within(each, "webhookhub") or within(each, "django")]
            assert not inside or own == [], name(file)
            assert inside or not any(within(each, "webhookhub.client") for each in own), name(file)


@pytest.mark.parametrize("package", sorted(set(ALLOWED) - {"demo"}))
def test_rows_are_written_by_the_layer_that_owns_them(package: str):
    found = {
        name(file): foreign_writes(package, tree(file)) for file in files(package) if "migrations" not in file.parts
    }

    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("jobs", "job.saga.status = 'Completed'"),
        ("jobs", "job.saga.save()"),
        ("jobs", "apps.get_model('sagas', 'Saga').objects.update(status='Pending')"),
        ("jobs", "cursor.execute('UPDATE webhook_delivery_sagas SET status = 1')"),
        ("deadletters", "Saga.objects.filter(id=1).update(status='Pending')"),
        ("api", "Saga(id=1).save()"),
        ("api", "insert_new(Saga, rows, key=['id'])"),
        ("sagas", "Event.objects.all().delete()"),
    ],
)
def test_writing_what_another_layer_owns_would_be_noticed(package: str, source: str):
    assert foreign_writes(package, ast.parse(source))


def test_only_workers_and_verification_send():
    importers = {
        package
        for package in ALLOWED
        for file in files(package)
        if any(within(each, "webhookhub.egress.curl") for each in imports(tree(file)))
    }

    assert importers <= SENDERS
    assert "jobs" in importers


@pytest.mark.parametrize(
    ("package", "source", "found"),
    [
        ("webhookhub", "import events", ["events"]),
        ("webhookhub", "def f():\n    from sagas.models import Saga", ["sagas.models.Saga"]),
        ("jobs", "from deadletters import burial", ["deadletters.burial"]),
        ("jobs", "from sagas.models import Saga", ["sagas.models.Saga"]),
        ("events", "from sagas import births, settle", ["sagas.settle"]),
        ("events", "from sagas.births_of_others import x", ["sagas.births_of_others.x"]),
        ("sagas", "from jobs.worker import Worker", ["jobs.worker.Worker"]),
        ("subscriptions", "from webhookhub.conf import hub\nfrom .models import Subscription", []),
    ],
)
def test_a_forbidden_import_is_found(package: str, source: str, found: list[str]):
    assert forbidden(package, False, ast.parse(source)) == found


def test_other_trespasses_are_found():
    assert sleeps_or_rolls_dice(ast.parse("import time\ntime.sleep(1)")) == ["time.sleep"]
    assert sleeps_or_rolls_dice(ast.parse("from time import sleep")) == ["time.sleep"]
    assert sleeps_or_rolls_dice(ast.parse("import random\nimport time\ntime.monotonic()")) == ["random"]
    assert vendor_names(ast.parse("'''MySQL'''\nif connection.vendor == f'my{x}mysql': pass")) == ["vendor", "mysql"]
    assert vendor_names(ast.parse("from webhookhub.db.vendors import is_mariadb")) == ["is_mariadb"]
    assert talks(ast.parse("import socket\nsocket.gethostname()\nsocket.create_connection(x)")) == [
        "socket.create_connection"
    ]
    assert talks(ast.parse("from urllib.request import urlopen\nfrom urllib.parse import quote")) == [
        "urllib.request.urlopen"
    ]
