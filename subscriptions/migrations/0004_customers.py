"""Customers. A subscription may belong to one, for ever, and gets no deliveries while it is disabled."""

import django.core.validators
from django.db import migrations, models

import webhookhub.db.clock
import webhookhub.db.fields
import webhookhub.ids
from webhookhub.db.triggers import (
    Check,
    Mirror,
    RealTimes,
    Refusal,
    ReplaceTriggers,
    Required,
    Rule,
    WithTriggersAside,
    earlier,
    made_by,
)

before = earlier("subscriptions", "0002_triggers")


def key_given(connection, customer_key):
    return f"{customer_key} <> ''"


KEY = Check("chk_customer_key", ["customer_key"], key_given)
STATE = ["name", "created_at", "updated_at"]
CREATED = [*before.CREATED, Required(["customer_key"])]
CHANGED = [
    *before.CHANGED,
    Rule("customer", "A subscription keeps its customer: UPDATE refused", protects=["customer_key"]),
]
REPLACED = [
    Refusal("trg_sub_created", "subscriptions", "INSERT", CREATED),
    Refusal("trg_sub_changed", "subscriptions", "UPDATE", CHANGED),
]
NAMES = {trigger.name for trigger in REPLACED}
TRIGGERS = [
    *REPLACED,
    Refusal(
        "trg_customer_created",
        "customers",
        "INSERT",
        [
            Required(["uid", "customer_key", *STATE]),
            Rule("enabled", "A new customer is not disabled: INSERT refused", when="NEW.disabled_at IS NOT NULL"),
            KEY,
        ],
    ),
    Refusal(
        "trg_customer_changed",
        "customers",
        "UPDATE",
        [
            Required(STATE),
            RealTimes(["disabled_at"], changed=True),
            Rule("identity", "A customer keeps its key: UPDATE refused", protects=["id", "uid", "customer_key"]),
        ],
    ),
    Refusal(
        "trg_customer_no_delete",
        "customers",
        "DELETE",
        [Rule("deleted", "A customer is disabled and never deleted: DELETE refused")],
    ),
    Mirror(
        "trg_customer_disabled",
        "customers",
        "UPDATE",
        "subscriptions",
        "customer_key",
        "disabled_at",
        "updated_at",
        target="customer_disabled_at",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0003_label_filter")]

    operations = [
        migrations.CreateModel(
            name="Customer",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "uid",
                    models.UUIDField(default=webhookhub.ids.new_uid, editable=False, unique=True, verbose_name="uid"),
                ),
                (
                    "customer_key",
                    webhookhub.db.fields.ExactTextField(
                        help_text="Your own key of the customer. It cannot be changed later.",
                        max_length=100,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}\\Z",
                                "A customer key has 1 to 100 letters, digits and the signs _ . : @ + -, and begins "
                                "with a letter or a digit.",
                            )
                        ],
                        verbose_name="key",
                    ),
                ),
                (
                    "name",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", max_length=200, verbose_name="name"
                    ),
                ),
                (
                    "disabled_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="disabled at"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=webhookhub.db.clock.UtcNow(), editable=False, verbose_name="created at"
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=webhookhub.db.clock.UtcNow(), editable=False, verbose_name="updated at"
                    ),
                ),
            ],
            options={
                "verbose_name": "customer",
                "verbose_name_plural": "customers",
                "db_table": "customers",
                "permissions": [("disable_customer", "Can disable and enable a customer")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("customer_key", ""), _negated=True), name="chk_customer_key"
                    )
                ],
            },
        ),
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="subscription",
                    name="customer_disabled_at",
                    field=models.DateTimeField(blank=True, editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="subscription",
                    name="customer_key",
                    field=webhookhub.db.fields.ExactTextField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Its events only. Empty: the events of all customers, and those without one.",
                        max_length=100,
                        verbose_name="customer",
                    ),
                ),
                migrations.AddIndex(
                    model_name="subscription",
                    index=models.Index(fields=["customer_key"], name="idx_sub_customer"),
                ),
                migrations.AddConstraint(
                    model_name="subscription",
                    constraint=models.UniqueConstraint(
                        fields=("event_type", "callback_url", "customer_key"),
                        name="uniq_sub_type_callback_customer",
                        violation_error_message="This address is subscribed to this event type already.",
                    ),
                ),
                migrations.RemoveConstraint(model_name="subscription", name="uniq_sub_event_type_callback"),
            ]
        ),
        ReplaceTriggers(TRIGGERS, [trigger for trigger in made_by(before.Migration) if trigger.name in NAMES]),
    ]
