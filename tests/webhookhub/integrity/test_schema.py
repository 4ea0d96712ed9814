"""The integrity check finds missing keys and triggers, and reports what it may not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.db import connection, models, transaction

from jobs.models import Job
from webhookhub.db import vendors
from webhookhub.db.triggers import declared
from webhookhub.integrity.checks import schema
from webhookhub.integrity.checks.schema import own_models

from .support import (
    add_constraint,
    audit,
    drop_triggers,
    execute,
    keys,
    remove_constraint,
    restore_triggers,
    schema_editor,
)

pytestmark = pytest.mark.every_engine

CHECKS = ("server", "keys", "triggers", "triggers-seen")


@pytest.fixture(autouse=True)
def restored(committed: None) -> Iterator[None]:
    yield
    restore_triggers()


def test_a_missing_trigger_is_named():
    execute("DROP TRIGGER trg_job_changed")
    found = audit(*CHECKS)
    restore_triggers()
    assert {name: keys(result) for name, result in found.items()} == {"triggers": ["trg_job_changed"]}
    assert audit(*CHECKS) == {}


def test_a_trigger_with_another_body_is_named():
    body = "BEGIN UPDATE hub_processes SET pid = pid WHERE 1 = 0; END"
    execute("DROP TRIGGER trg_job_changed")
    execute(f"CREATE TRIGGER trg_job_changed BEFORE UPDATE ON webhook_delivery_jobs FOR EACH ROW {body}")
    try:
        found = audit(*CHECKS)
    finally:
        execute("DROP TRIGGER trg_job_changed")
    assert {name: keys(result) for name, result in found.items()} == {"triggers": ["trg_job_changed"]}
    assert "differs from the migrations' trigger" in str(found["triggers"].first[0])
    assert "manage.py create_triggers" in str(found["triggers"].first[0])


def test_each_trigger_is_named_where_all_are_missing():
    names = sorted(trigger.name for trigger in declared())
    assert len(names) > 10
    drop_triggers()
    assert keys(audit("triggers")["triggers"]) == names


@pytest.fixture
def only_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[models.Model]], list[str]]:
    """What the check of keys finds in the table of one model; to describe all tables each time takes long."""

    def faults(model: type[models.Model]) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "own_models", lambda: [model])
            return keys(audit("keys")["keys"])

    return faults


def test_each_missing_key_and_check_is_named(only_of: Callable[[type[models.Model]], list[str]]):
    constraints = [(model, constraint) for model in own_models() for constraint in model._meta.constraints]
    assert len(constraints) > 5
    drop_triggers()  # SQLite creates a table again, and refuses that while a trigger of another table reads it
    for model, constraint in constraints:
        remove_constraint(model, constraint)
        found = only_of(model)
        add_constraint(model, constraint)
        assert constraint.name in found
    assert audit("keys") == {}


def test_each_missing_index_is_named(only_of: Callable[[type[models.Model]], list[str]]):
    for model in own_models():
        for index in model._meta.indexes:
            with schema_editor() as editor:
                editor.remove_index(model, index)
            found = only_of(model)
            with schema_editor() as editor:
                editor.add_index(model, index)
            assert found == [index.name]
    assert audit("keys") == {}


def test_a_key_of_the_same_name_on_other_columns_is_named():
    declared = next(each for each in Job._meta.constraints if each.name == "uniq_job_saga_attempt_no")
    other = models.Index(fields=["saga", "attempt_no"], name=declared.name)
    if not vendors.is_server(connection):
        other = models.Index(fields=["worker_id"], name="idx_job_settled")
        declared = next(each for each in Job._meta.indexes if each.name == other.name)
    _swap(declared, other)
    try:
        assert keys(audit("keys")["keys"]) == [other.name]
    finally:
        _swap(other, declared)


def _swap(old: models.Index | models.BaseConstraint, new: models.Index | models.BaseConstraint) -> None:
    with schema_editor() as editor:
        for verb, item in (("remove", old), ("add", new)):
            kind = "index" if isinstance(item, models.Index) else "constraint"
            getattr(editor, f"{verb}_{kind}")(Job, item)


def test_a_generated_column_that_became_a_plain_one_is_named():
    column = Job._meta.get_field("active_saga_id")
    if not vendors.is_server(connection):
        with transaction.atomic():  # the embedded database takes back changes of its tables, too
            execute("ALTER TABLE webhook_delivery_jobs RENAME TO jobs_before")
            execute("CREATE TABLE webhook_delivery_jobs AS SELECT * FROM jobs_before")
            assert column.column in keys(audit("keys")["keys"])
            transaction.set_rollback(True)
        return
    execute("ALTER TABLE webhook_delivery_jobs MODIFY active_saga_id bigint NULL")
    try:
        assert keys(audit("keys")["keys"]) == [column.column]
    finally:
        execute("ALTER TABLE webhook_delivery_jobs DROP INDEX uniq_job_active_saga, DROP COLUMN active_saga_id")
        with schema_editor() as editor:
            editor.add_field(Job, column)
            editor.add_constraint(Job, next(each for each in Job._meta.constraints if "active" in each.name))
    assert audit("keys") == {}


@pytest.mark.mysql_family
def test_a_read_only_user_gets_a_warning_that_triggers_are_hidden():
    name = connection.settings_dict["NAME"]
    execute("DROP USER IF EXISTS 'hub_audit_reader'@'%'")
    execute("CREATE USER 'hub_audit_reader'@'%' IDENTIFIED BY 'reader'")
    execute(f"GRANT SELECT ON {name}.* TO 'hub_audit_reader'@'%'")
    own = {key: connection.settings_dict[key] for key in ("USER", "PASSWORD")}
    try:
        connection.close()
        connection.settings_dict |= {"USER": "hub_audit_reader", "PASSWORD": "reader"}
        found = audit()
    finally:
        connection.close()
        connection.settings_dict |= own
        execute("DROP USER 'hub_audit_reader'@'%'")
    assert list(found) == ["triggers-seen"]
    assert "lacks the TRIGGER privilege" in str(found["triggers-seen"].first[0])


@pytest.mark.mysql_family
def test_a_table_kept_by_another_engine_is_named():
    execute("ALTER TABLE hub_processes ENGINE=MyISAM")
    try:
        found = audit("server")
    finally:
        execute("ALTER TABLE hub_processes ENGINE=InnoDB")
    assert keys(found["server"]) == ["webhookhub.E016"]
