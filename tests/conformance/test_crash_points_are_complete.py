"""No write of the product is forgotten by the tests that cut it short: the code itself says where it writes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import count

import pytest

from tests.webhookhub.auditlog.test_crashes import to_make_a_key, to_revoke
from tests.workflows.support import tracked
from tests.workflows.test_crashes import to_be_reported, to_complete, to_fail, to_time_out

from . import world
from .crashes import ROOT, statements_of
from .steps import STEPS
from .test_crash_points_elsewhere import ELSEWHERE, to_verify
from .test_crash_points_of_programs import OF_PROGRAMS

PACKAGES = (*("events", "subscriptions", "sagas", "jobs", "deadletters", "workflows", "api", "webhookhub"),)
HELPERS = {"insert_new", "insert_one", "insert_which", "insert_new_selected", "update_each", "delete_each", "add_up"}
METHODS = {
    *("update", "delete", "save", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create"),
    *("_raw_delete", "_raw_insert", "execute", "log_actions"),
}
A_PAGE = "a person at a form, one row at a time, in the transaction that Django keeps around a page"
# Files whose writes are not cut short here, each with the reason.
EXCEPT = {
    "subscriptions/admin.py": A_PAGE,
    "subscriptions/forms.py": A_PAGE,
    "events/admin.py": f"{A_PAGE}; it calls catalogue.declare and delete, which are",
    "api/event_types.py": "calls catalogue.declare and delete, which are",
    "api/admin.py": f"{A_PAGE}; it calls keys.create, which is",
    "api/endpoints.py": "calls endpoint_services.create and delete, which are",
    "subscriptions/endpoint_views.py": "calls endpoint_services.delete, which is",
    "subscriptions/management/commands/endpoint.py": "calls endpoint_services.create and delete, which are",
    "api/subscriptions.py": "calls editing.create, which is",
    "api/management/commands/api_key.py": "calls keys.create, which is",
    "webhookhub/integrity/check.py": "reads, in SQL of its own",
    "webhookhub/integrity/checks/requests.py": "reads, in SQL of its own",
    "webhookhub/integrity/tables.py": "reads, in SQL of its own",
    "webhookhub/accounts/groups.py": "after a migration; adds what is missing, and does so again after the next one",
    "webhookhub/accounts/management/commands/create_staff.py": "one transaction; refuses existing users",
    "webhookhub/accounts/throttle.py": "one statement each; a lost one is an attempt that is not counted",
    "webhookhub/accounts/second_factor.py": "one transaction each, or one statement that compares and sets",
    "webhookhub/accounts/webauthn.py": "one transaction each, or one statement that compares and sets",
    "webhookhub/accounts/sso.py": "one transaction for each log-in",
    "webhookhub/management/commands/grant_roles.py": "GRANTs, by hand, each of which may be repeated",
}


@dataclass(frozen=True)
class Write:
    """A call that writes, and the lines it stands on."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first}"


def writes_in_the_product() -> list[Write]:
    writes = []
    for file in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        if "migrations" not in file.parts and not file.is_relative_to(ROOT / "webhookhub" / "db"):
            nodes = list(ast.walk(ast.parse(file.read_text())))
            helpers = HELPERS.union(*map(_compiled_write, nodes))
            writes += [
                Write(file.relative_to(ROOT).as_posix(), node.lineno, node.end_lineno or node.lineno)
                for node in nodes
                if isinstance(node, ast.Call) and _is_write(node, helpers)
            ]
    return writes


def _compiled_write(node: ast.AST) -> set[str]:
    """The name of a write that is compiled once."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="CompiledUpdate" | "CompiledInsert"))
        ):
            return {name}
    return set()


def _is_write(call: ast.Call, helpers: set[str]) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in helpers
        case ast.Attribute(attr=name):
            # A dictionary is updated with something, a table by its columns' names.
            return name in METHODS and not (name == "update" and call.args)
    return False


@pytest.mark.requirement("R4-1.2d", "R4-3.1a")
@pytest.mark.every_engine
@pytest.mark.usefixtures("committed")
def test_every_write_of_the_product_is_interrupted_by_a_test(endpoint):
    numbers = count(1)
    statements = []
    for step in STEPS:
        statements += statements_of(step.prepare(f"complete{next(numbers)}"))
        world.run_to_end()
    tracked()
    for prepare_workflow in (to_complete, to_fail, to_time_out, to_be_reported):
        statements += statements_of(prepare_workflow(f"complete{next(numbers)}"))
    for prepare in (to_verify(endpoint), *ELSEWHERE, *OF_PROGRAMS, to_make_a_key, to_revoke):
        statements += statements_of(prepare())

    written = [set(statement.places) for statement in statements if statement.writes]
    cut_short = set().union(*written)
    writes = writes_in_the_product()
    forgotten = [str(write) for write in writes if write.file not in EXCEPT and not _among(write, cut_short)]
    assert forgotten == []
    assert {write.file for write in writes} >= EXCEPT.keys()
    unknown = [places for places in written if not any(_among(write, places) for write in writes)]
    assert unknown == [], "it writes in a way that is not looked for here"


def _among(write: Write, places: set[tuple[str, int]]) -> bool:
    return any(file == write.file and write.first <= line <= write.last for file, line in places)
