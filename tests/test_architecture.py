"""Which package may import which, which files may name a database engine, and which may open connections.

A new package, or an import from another one, needs a line in these tables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Room → the modules of other rooms that it may import. All rooms may import the foundation, `webhookhub` itself, which
# imports none of them.
ALLOWED: dict[str, set[str]] = {
    "webhookhub": set(),
    "webhookhub.client": set(),
    "webhookhub.accounts": {
        "webhookhub.auditlog.actions",
        "webhookhub.auditlog.context",
        "webhookhub.auditlog.record",
    },
    "webhookhub.auditlog": set(),
    # Else it reads every table with SQL of its own.
    "webhookhub.integrity": {
        "events.labels",
        "subscriptions.endpoint_models",
        "subscriptions.filters",
        "webhookhub.stats.ready_work",
    },
    "webhookhub.stats": {  # counters that the layers call, and /metrics, which reads the layers' open work
        "api.models",
        "events.models",
        "jobs.models",
        "jobs.states",
        "sagas.models",
        "sagas.parking",
        "sagas.transitions",
        "subscriptions.models",
        "webhookhub.auditlog.record",
        "workflows.models",
        "workflows.state",
    },
    "webhookhub.console": {  # the UI kit, and the pages that span layers
        "api.models",
        "deadletters",
        "events",
        "jobs",
        "sagas",
        "subscriptions",
        "webhookhub.accounts.second_factor",
        "webhookhub.accounts.second_factor_views",
        "webhookhub.accounts.views",
        "webhookhub.auditlog.admin",
        "webhookhub.auditlog.context",
        "webhookhub.auditlog.permissions",
        "webhookhub.stats.endpoints",
        "webhookhub.stats.queries",
        "workflows.labels",
        "workflows.lookup",
        "workflows.models",
    },
    "subscriptions": {"webhookhub.accounts.second_factor", "webhookhub.auditlog"},  # reencrypt_secrets does both
    "events": {
        "sagas.create",
        "sagas.policy",
        "sagas.transitions",
        "subscriptions.cache",
        "subscriptions.customers",
        "subscriptions.filters",
        "subscriptions.health",
        "subscriptions.matching",
        "subscriptions.models",
        "subscriptions.patterns",
        "webhookhub.auditlog",
    },
    "sagas": {
        "deadletters.create",
        "deadletters.models",
        "deadletters.requeue",
        "events.models",
        "jobs.create",
        "jobs.models",
        "jobs.states",
        "subscriptions.cache",
        "subscriptions.endpoints",
        "subscriptions.health",
        "subscriptions.models",
        "webhookhub.auditlog.actions",
        "webhookhub.auditlog.record",
        "webhookhub.auditlog.render",
        "webhookhub.stats.attempts",
        "webhookhub.stats.counters",
    },
    "jobs": {
        "events.endpoint_events",
        "sagas.models",
        "subscriptions.credentials",
        "subscriptions.models",
        "subscriptions.oauth2",
        "subscriptions.redaction",
        "subscriptions.secrets",
        "subscriptions.signing",
        "webhookhub.stats.counters",
        "webhookhub.stats.rollup",
    },
    "deadletters": {
        "events.lookup",
        "events.models",
        "sagas.conditions",
        "sagas.create",
        "sagas.models",
        "sagas.policy",
        "sagas.transitions",
        "subscriptions.models",
        "webhookhub.auditlog.actions",
        "webhookhub.auditlog.record",
        "webhookhub.auditlog.render",
    },
    "workflows": {
        "events.intake",
        "events.models",
        "sagas.models",
        "sagas.redeliver",
        "sagas.transitions",
        "webhookhub.auditlog.actions",
        "webhookhub.auditlog.record",
        "webhookhub.stats.counters",
        "webhookhub.stats.histogram",
        "webhookhub.stats.workflow_periods",
    },
    "api": {  # calls the layers' services and shows their rows
        "deadletters.bulk_requeue",
        "deadletters.filters",
        "deadletters.models",
        "deadletters.requeue",
        "events.backfill",
        "events.catalogue",
        "events.errors",
        "events.filters",
        "events.filter_preview",
        "events.group_commit",
        "events.intake",
        "events.labels",
        "events.lookup",
        "events.models",
        "events.openapi",
        "events.payloads",
        "jobs.models",
        "sagas.filters",
        "sagas.models",
        "sagas.redeliver",
        "sagas.requests",
        "sagas.transitions",
        "sagas.waiting",
        "subscriptions.client_certificates",
        "subscriptions.credential_services",
        "subscriptions.credentials",
        "subscriptions.customers",
        "subscriptions.endpoint_models",
        "subscriptions.endpoint_services",
        "subscriptions.oauth2",
        "subscriptions.filters",
        "subscriptions.health",
        "subscriptions.matching",
        "subscriptions.models",
        "subscriptions.patterns",
        "subscriptions.secrets",
        "subscriptions.services",
        "subscriptions.sample_delivery",
        "subscriptions.verification",
        "webhookhub.auditlog.actions",
        "webhookhub.auditlog.admin",
        "webhookhub.auditlog.record",
        "webhookhub.stats.endpoints",
        "workflows",
    },
}
# The pages of a layer: they may use the UI kit, any model and any look-up. No other file imports the UI.
PAGES = {"admin.py", "forms.py", "views.py"}
SHOWN = {"models", "lookup", "waiting"}
UI = "webhookhub.console"
MAY_USE_UI = {
    "subscriptions/endpoint_admin.py",
    "subscriptions/endpoint_views.py",
    "webhookhub/settings.py",
}

APPS = set(ALLOWED) - {"webhookhub", "webhookhub.client"}
LAYERS = {room for room in ALLOWED if "." not in room} - {"webhookhub"}

VENDOR = re.compile(r"mysql|mariadb|sqlite|innodb", re.IGNORECASE)
KNOWS_VENDORS = {
    "webhookhub/db/errors.py",
    "webhookhub/db/server/base.py",
    "webhookhub/db/vendors.py",
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
SENDERS = {"jobs", "subscriptions", "webhookhub.accounts"}


def room_of(module: str) -> str | None:
    """The innermost room that a module belongs to; None for modules outside the product."""
    return max((room for room in ALLOWED if within(module, room)), key=len, default=None)


def files(room: str) -> list[Path]:
    found = sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
    return [file for file in found if room_of(name(file).removesuffix(".py").replace("/", ".")) == room]


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


def forbidden(room: str, file: str, module: ast.Module) -> list[str]:
    """Imports of other rooms that the table does not allow."""
    allowed = set(ALLOWED[room])
    is_page = file.rpartition("/")[2] in PAGES
    if is_page or file.endswith("/lookup.py"):
        allowed |= {f"{layer}.{part}" for layer in LAYERS for part in SHOWN}
    if is_page or file in MAY_USE_UI:
        allowed.add(UI)
    return [
        found
        for found in imports(module)
        if room_of(found) not in (None, room, "webhookhub") and not any(within(found, prefix) for prefix in allowed)
    ]


def signals_random_or_sleep(module: ast.Module) -> list[str]:
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


def opens_connections(module: ast.Module) -> list[str]:
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
    file = ROOT / package.replace(".", "/") / "models.py"
    if not file.exists():
        return set()
    return {node.name for node in tree(file).body if isinstance(node, ast.ClassDef)}


def tables_of(package: str) -> set[str]:
    file = ROOT / package.replace(".", "/") / "models.py"
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
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests", "tools"}

    assert packages == {room for room in ALLOWED if "." not in room}
    assert all(files(room) for room in ALLOWED)


@pytest.mark.requirement("R1-4.1b", "R1-4.2d")
@pytest.mark.requirement("R2-2.3i", "R2-2.3j")
@pytest.mark.requirement("R3-2.3a", "R3-3.4f")
@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_the_table_allows(package: str):
    found = {name(file): forbidden(package, name(file), tree(file)) for file in files(package)}

    assert {file: modules for file, modules in found.items() if modules} == {}


@pytest.mark.parametrize("package", sorted(APPS))
def test_the_table_allows_nothing_that_is_not_used(package: str):
    used = {each for file in files(package) for each in imports(tree(file))}

    unused = {prefix for prefix in ALLOWED[package] if not any(within(each, prefix) for each in used)}
    assert unused == set()


@pytest.mark.parametrize("package", sorted(APPS))
def test_no_app_uses_signals_random_numbers_or_sleep(package: str):
    found = {name(file): signals_random_or_sleep(tree(file)) for file in files(package)}

    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_one_file_names_the_database_engines(package: str):
    found = {name(file): vendor_names(tree(file)) for file in files(package) if name(file) not in KNOWS_VENDORS}

    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.requirement("R1-4.2a")
@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_only_egress_opens_connections(package: str):
    found = {name(file): opens_connections(tree(file)) for file in files(package)}

    # The client runs in the producers' processes, not in the hub's; a notification does not leave the machine; the
    # database's connection gets its socket options.
    allowed = (
        "webhookhub/egress/",
        "webhookhub/client/",
        "webhookhub/runner/notifier.py",
        "webhookhub/db/server/base.py",
    )
    outside = {file: what for file, what in found.items() if what and not file.startswith(allowed)}
    assert outside == {}


def test_client_and_hub_do_not_import_each_other():
    for package in ALLOWED:
        for file in files(package):
            inside = name(file).startswith("webhookhub/client/")
            own = [each for each in imports(tree(file)) if within(each, "webhookhub") or within(each, "django")]
            assert not inside or own == [], name(file)
            assert inside or not any(within(each, "webhookhub.client") for each in own), name(file)


@pytest.mark.requirement("R1-1b", "R1-4.2b", "R1-4.2c")
@pytest.mark.requirement("R2-2.3f")
@pytest.mark.requirement("R3-1.3b", "R3-2.3a")
@pytest.mark.parametrize("package", sorted(ALLOWED))
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
def test_a_write_to_rows_of_another_layer_is_found(package: str, source: str):
    assert foreign_writes(package, ast.parse(source))


@pytest.mark.requirement("R1-4.2a")
def test_only_workers_and_verification_send():
    importers = {
        package
        for package in ALLOWED
        for file in files(package)
        if any(within(each, "webhookhub.egress.engine") for each in imports(tree(file)))
    }

    assert importers <= SENDERS
    assert "jobs" in importers


@pytest.mark.parametrize(
    ("package", "source", "found"),
    [
        ("webhookhub", "import events", ["events"]),
        ("webhookhub", "def f():\n    from sagas.models import Saga", ["sagas.models.Saga"]),
        ("jobs", "from deadletters import create", ["deadletters.create"]),
        ("jobs", "from sagas.dispatch import dispatch", ["sagas.dispatch.dispatch"]),
        ("events", "from sagas import create, settle", ["sagas.settle"]),
        ("events", "from sagas.create_others import x", ["sagas.create_others.x"]),
        ("sagas", "from jobs.worker import Worker", ["jobs.worker.Worker"]),
        ("subscriptions", "from webhookhub.conf import hub\nfrom .models import Subscription", []),
        ("subscriptions", "from webhookhub.console import format", ["webhookhub.console.format"]),
    ],
)
def test_a_forbidden_import_is_found(package: str, source: str, found: list[str]):
    assert forbidden(package, f"{package}/settle.py", ast.parse(source)) == found


def test_other_violations_are_found():
    assert signals_random_or_sleep(ast.parse("import time\ntime.sleep(1)")) == ["time.sleep"]
    assert signals_random_or_sleep(ast.parse("from time import sleep")) == ["time.sleep"]
    assert signals_random_or_sleep(ast.parse("import random\nimport time\ntime.monotonic()")) == ["random"]
    assert vendor_names(ast.parse("'''MySQL'''\nif connection.vendor == f'my{x}mysql': pass")) == ["vendor", "mysql"]
    assert vendor_names(ast.parse("from webhookhub.db.vendors import is_mariadb")) == ["is_mariadb"]
    assert opens_connections(ast.parse("import socket\nsocket.gethostname()\nsocket.create_connection(x)")) == [
        "socket.create_connection"
    ]
    assert opens_connections(ast.parse("from urllib.request import urlopen\nfrom urllib.parse import quote")) == [
        "urllib.request.urlopen"
    ]
