"""Endpoints as rows. A subscription belongs to one, and its settings are copies of the endpoint's.

Stored subscriptions get theirs here: those of the same customer with the same settings and secret share one, the others
have one of their own, so that every signature stays as it is.
"""

import datetime
from collections import defaultdict

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models, transaction

import subscriptions.endpoint_models
import webhookhub.db.clock
import webhookhub.db.fields
import webhookhub.ids
from subscriptions.endpoint_models import settings_constraints
from webhookhub import crypto
from webhookhub.db.copies import Copies, CopyDown, CopyUp, SameAsShared, ShareChanged, ShareNew
from webhookhub.db.triggers import (
    IDS_LEFT,
    Check,
    Default,
    Mirror,
    RealTimes,
    Refusal,
    ReplaceTriggers,
    Required,
    Reset,
    Rule,
    WithTriggersAside,
    earlier,
    made_by,
    schedule_checks,
)

first = earlier("subscriptions", "0002_triggers")
before = earlier("subscriptions", "0006_identity")
changed = earlier("subscriptions", "0007_verification_time")
RULES = {trigger.name: trigger.rules for trigger in [*before.TRIGGERS, *changed.TRIGGERS]}

SETTINGS = [
    "callback_url",
    "active",
    "verified",
    "verification_result",
    "verification_at",
    "signing_scheme",
    "secret",
    "previous_secret",
    "previous_secret_until",
    "custom_headers",
    "credentials",
    "certificate_expires_at",
    "description",
    "max_retry_limit",
    "base_delay",
    "retry_delays",
    "rate_limit",
    "disabled_at",
    "deleted_at",
]
SECRETS = ["secret", "previous_secret", "custom_headers", "credentials"]
COPIES = Copies(
    table="subscriptions",
    shared="endpoints",
    key="endpoint_id",
    columns=SETTINGS,
    identity=["customer_key"],
    ended="deleted_at",
    state=["disabled_at"],
    made={"uid": "new_uid_sql", "created_at": "utc_now_sql", "updated_at": "utc_now_sql"},
)


def delete_marks(noun):
    return [
        Rule(
            "deleted is off",
            f"A deleted {noun} is not active: UPDATE refused",
            when="NEW.deleted_at IS NOT NULL AND NEW.active <> 0",
        ),
        Rule(
            "deleted for good",
            f"A deleted {noun} stays deleted: UPDATE refused",
            when="OLD.deleted_at IS NOT NULL",
            protects_values=["deleted_at"],
        ),
    ]


UNVERIFIED = Rule(
    "unverified",
    "A new subscription is verified only with its endpoint: INSERT refused",
    when="NEW.verified = 1 AND NEW.endpoint_id IS NULL",
)
SUBSCRIBED = [
    *(rule for rule in RULES["trg_sub_created"] if getattr(rule, "name", "") != "unverified"),
    UNVERIFIED,
    Rule("exists", "A new subscription is not deleted: INSERT refused", when="NEW.deleted_at IS NOT NULL"),
    SameAsShared(COPIES, "A subscription has the customer and the settings of its endpoint: INSERT refused"),
]
SUBSCRIPTION_CHANGED = [
    *RULES["trg_sub_changed"],
    RealTimes(["deleted_at"], changed=True),
    *delete_marks("subscription"),
    SameAsShared(COPIES, "A subscription has the settings of its endpoint: UPDATE refused", changed=True),
]

CHECKS = [
    Check("chk_endpoint_callback_https", ["callback_url"], first.callback_https),
    Check("chk_endpoint_limit_positive", ["max_retry_limit"], first.limit_positive),
    Check("chk_endpoint_rate_positive", ["rate_limit"], first.limit_positive),
    Check("chk_endpoint_one_schedule", ["retry_delays", "max_retry_limit", "base_delay"], first.one_schedule),
    *schedule_checks("endpoint"),
]
STATE = [*(column for column in first.REQUIRED.columns if column != "event_type"), "vouched_by", "vouch_reason"]
ENDPOINT = [
    Rule("flags", "verified and active of an endpoint are 0 or 1, nothing else: refused", when=first.NOT_BOOLEAN),
    Rule(
        "verified at",
        "A verification has its time: refused",
        when="NEW.verified = 1 AND NEW.verification_at IS NULL",
    ),
    Rule(
        "vouched",
        "A person who vouches for an endpoint gives a reason: refused",
        when="NEW.vouched_by <> '' AND NEW.vouch_reason = ''",
    ),
    *CHECKS,
]
ENDPOINT_CREATED = [Required([*STATE, "uid", "customer_key"]), *ENDPOINT, IDS_LEFT]
ENDPOINT_CHANGED = [
    Required(STATE),
    *ENDPOINT,
    RealTimes(["verification_at", "deleted_at"], changed=True),
    Rule("identity", "An endpoint keeps its customer: UPDATE refused", protects=["id", "uid", "customer_key"]),
    Rule(
        "verified",
        "Only a verification, recorded in verification_at, sets verified: UPDATE refused",
        when="OLD.verified = 0 AND NEW.verified = 1",
        unless_changed=["verification_at"],
    ),
    *delete_marks("endpoint"),
]
DISABLED = ("endpoints", "endpoint_id", "disabled_at", "updated_at")
OLDEST_WITH_URL = "SELECT MIN(endpoints.id) FROM endpoints WHERE endpoints.callback_url = NEW.callback_url"
TRIGGERS = [
    Refusal("trg_sub_created", "subscriptions", "INSERT", SUBSCRIBED),
    Refusal("trg_sub_changed", "subscriptions", "UPDATE", SUBSCRIPTION_CHANGED),
    Mirror("trg_health_created", "endpoint_health", "INSERT", *DISABLED, target_key="id"),
    Mirror("trg_health_changed", "endpoint_health", "UPDATE", *DISABLED, target_key="id"),
    # First of all, so that the refusals see what they have set.
    Reset("trg_endpoint_other_url", "endpoints", "callback_url", "verified", "0"),
    Reset("trg_endpoint_other_url_enabled", "endpoints", "callback_url", "disabled_at", "NULL"),
    Reset("trg_endpoint_other_url_vouched", "endpoints", "callback_url", "vouched_by", "''"),
    Refusal("trg_endpoint_created", "endpoints", "INSERT", ENDPOINT_CREATED),
    Refusal("trg_endpoint_changed", "endpoints", "UPDATE", ENDPOINT_CHANGED),
    Refusal(
        "trg_endpoint_no_delete",
        "endpoints",
        "DELETE",
        [Rule("deleted", "An endpoint is marked as deleted and never removed: DELETE refused")],
    ),
    CopyDown("trg_endpoint_copied", COPIES),
    # After the refusals. For programs that know no endpoints.
    ShareNew("trg_sub_new_endpoint", COPIES),
    ShareChanged("trg_sub_own_endpoint", COPIES),
    CopyUp("trg_sub_copied_up", COPIES),
    Default("trg_health_endpoint", "endpoint_health", "endpoint_id", OLDEST_WITH_URL),
    Default("trg_rate_endpoint", "endpoint_rates", "endpoint_id", OLDEST_WITH_URL),
]
BEFORE = [
    *(trigger for trigger in made_by(before.Migration) if trigger.name == "trg_sub_created"),
    *made_by(changed.Migration),
    *(trigger for trigger in made_by(first.Migration) if trigger.name in {"trg_health_created", "trg_health_changed"}),
]


def share_endpoints(apps, schema_editor):
    """Endpoints for the subscriptions that have none, and the health of each endpoint."""
    alias = schema_editor.connection.alias
    with transaction.atomic(using=alias):
        _share_endpoints(apps, alias)


def _share_endpoints(apps, alias):
    stored = apps.get_model("subscriptions", "Subscription").objects.using(alias).filter(endpoint=None)
    endpoints = apps.get_model("subscriptions", "Endpoint").objects.using(alias)
    for rows in _alike(stored):
        shared = endpoints.create(
            uid=webhookhub.ids.new_uid(),
            customer_key=rows[0].customer_key,
            **{name: getattr(rows[0], name) for name in SETTINGS},
        )
        same_bytes = {name: getattr(shared, name) for name in SECRETS}
        stored.filter(id__in=[row.id for row in rows]).update(endpoint=shared, **same_bytes)
    # A trigger creates the others.
    stored.filter(endpoint=None).update(updated_at=models.F("updated_at"))
    health = apps.get_model("subscriptions", "EndpointHealth").objects.using(alias)
    for row in health.filter(endpoint=None).order_by("id"):
        ids = list(endpoints.filter(callback_url=row.callback_url).order_by("id").values_list("id", flat=True))
        health.filter(id=row.id).update(endpoint=ids[0] if ids else None)
        values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
        for pk in ids[1:]:
            health.create(**{**values, "id": None, "endpoint_id": pk})
        endpoints.filter(id__in=ids).update(disabled_at=row.disabled_at)


def _alike(stored):
    """Groups of two or more subscriptions with the same customer and the same settings."""
    plain = [name for name in SETTINGS if name not in SECRETS]
    urls = stored.values("customer_key", "callback_url").annotate(count=models.Count("id")).filter(count__gt=1)
    for url in urls.order_by("customer_key", "callback_url"):
        groups = defaultdict(list)
        rows = stored.filter(customer_key=url["customer_key"], callback_url=url["callback_url"]).order_by("id")
        for row in rows:
            try:
                secrets = [value and crypto.decrypt(value) for value in (getattr(row, name) for name in SECRETS)]
            except (crypto.Undecipherable, ValueError):  # ValueError: there are no keys at all
                continue
            groups[(*(str(getattr(row, name)) for name in plain), *secrets)].append(row)
        yield from (group for group in groups.values() if len(group) > 1)


def endpoint():
    return models.OneToOneField(
        db_constraint=False,
        null=True,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name="+",
        to="subscriptions.endpoint",
    )


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0007_verification_time")]

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "callback_url",
                    webhookhub.db.fields.ExactTextField(
                        help_text="An https URL.",
                        max_length=500,
                        validators=[subscriptions.endpoint_models.validate_callback_url],
                        verbose_name="callback URL",
                    ),
                ),
                (
                    "active",
                    models.BooleanField(
                        default=True,
                        help_text="If off, it gets no new deliveries, and open ones wait.",
                        verbose_name="active",
                    ),
                ),
                (
                    "verified",
                    models.BooleanField(
                        default=False,
                        editable=False,
                        help_text="The endpoint has shown that it wants these events.",
                        verbose_name="verified",
                    ),
                ),
                (
                    "verification_result",
                    webhookhub.db.fields.ExactTextField(blank=True, default="", editable=False, max_length=200),
                ),
                (
                    "verification_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="last verification"),
                ),
                (
                    "signing_scheme",
                    webhookhub.db.fields.WordField(
                        default="v1",
                        help_text="v1: a secret that both sides know. "
                        "v1a: ed25519, the receiver needs the public key only.",
                        verbose_name="signing scheme",
                        words=["v1", "v1a"],
                    ),
                ),
                (
                    "secret",
                    webhookhub.db.fields.ExactTextField(
                        default=subscriptions.endpoint_models.encrypted_new_secret, editable=False, max_length=500
                    ),
                ),
                (
                    "previous_secret",
                    webhookhub.db.fields.ExactTextField(blank=True, default="", editable=False, max_length=500),
                ),
                ("previous_secret_until", models.DateTimeField(blank=True, editable=False, null=True)),
                ("custom_headers", models.TextField(blank=True, default="", editable=False)),
                ("credentials", models.TextField(editable=False, null=True)),
                ("certificate_expires_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "description",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, default="", max_length=200, verbose_name="description"
                    ),
                ),
                (
                    "max_retry_limit",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Attempts, the first included. Empty: the hub's default.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                        verbose_name="max retry limit",
                    ),
                ),
                (
                    "base_delay",
                    models.DurationField(
                        blank=True,
                        help_text="Delay after the first failure (hh:mm:ss); it doubles each time. "
                        "Empty: the hub's default.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(datetime.timedelta(microseconds=1000)),
                            django.core.validators.MaxValueValidator(datetime.timedelta(days=1)),
                        ],
                        verbose_name="base delay",
                    ),
                ),
                (
                    "retry_delays",
                    webhookhub.db.fields.SecondsListField(
                        blank=True,
                        help_text="Instead of limit and base delay: seconds after each failure, such as 5, 300, 1800. "
                        "Then it stops.",
                        null=True,
                        verbose_name="retry delays",
                    ),
                ),
                (
                    "rate_limit",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Deliveries per second, retries included.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10000),
                        ],
                        verbose_name="rate limit",
                    ),
                ),
                (
                    "disabled_at",
                    models.DateTimeField(blank=True, editable=False, null=True, verbose_name="disabled at"),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at")),
                ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "uid",
                    models.UUIDField(default=webhookhub.ids.new_uid, editable=False, unique=True, verbose_name="uid"),
                ),
                (
                    "customer_key",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", editable=False, max_length=100, verbose_name="customer"
                    ),
                ),
                (
                    "vouched_by",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", editable=False, max_length=150
                    ),
                ),
                (
                    "vouch_reason",
                    webhookhub.db.fields.ExactTextField(
                        blank=True, db_default="", default="", editable=False, max_length=500
                    ),
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
                "verbose_name": "endpoint",
                "verbose_name_plural": "endpoints",
                "db_table": "endpoints",
                "permissions": [("vouch_endpoint", "Can vouch for an endpoint that cannot be verified")],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["customer_key", "callback_url"], name="idx_endpoint_customer"),
                    models.Index(fields=["callback_url"], name="idx_endpoint_callback"),
                ],
                "constraints": settings_constraints("endpoint"),
            },
        ),
        WithTriggersAside(
            [
                migrations.AddField(
                    model_name="subscription",
                    name="deleted_at",
                    field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at"),
                ),
                migrations.AddField(
                    model_name="subscription",
                    name="endpoint",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="subscriptions",
                        to="subscriptions.endpoint",
                    ),
                ),
                migrations.AddField(
                    model_name="subscription",
                    name="existing",
                    field=models.GeneratedField(
                        db_persist=True,
                        expression=models.Case(models.When(deleted_at__isnull=True, then=1), default=None),
                        output_field=models.PositiveSmallIntegerField(null=True),
                    ),
                ),
                migrations.AlterField(
                    model_name="subscription",
                    name="rate_limit",
                    field=models.PositiveIntegerField(
                        blank=True,
                        help_text="Deliveries per second, retries included.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10000),
                        ],
                        verbose_name="rate limit",
                    ),
                ),
                migrations.AddIndex(
                    model_name="subscription",
                    index=models.Index(fields=["endpoint"], name="idx_sub_endpoint"),
                ),
                migrations.AddConstraint(
                    model_name="subscription",
                    constraint=models.UniqueConstraint(
                        fields=("event_type", "callback_url", "customer_key", "existing"),
                        name="uniq_sub_existing",
                        violation_error_message="This address is subscribed to this event type already.",
                    ),
                ),
                migrations.RemoveConstraint(
                    model_name="subscription",
                    name="uniq_sub_type_callback_customer",
                ),
                migrations.AlterField(
                    model_name="endpointhealth",
                    name="callback_url",
                    field=webhookhub.db.fields.ExactTextField(max_length=500),
                ),
                migrations.AlterField(
                    model_name="endpointrate",
                    name="callback_url",
                    field=webhookhub.db.fields.ExactTextField(db_default="", default="", max_length=500),
                ),
                migrations.AddField(model_name="endpointhealth", name="endpoint", field=endpoint()),
                migrations.AddField(model_name="endpointrate", name="endpoint", field=endpoint()),
            ]
        ),
        ReplaceTriggers(TRIGGERS, BEFORE),
        migrations.RunPython(share_endpoints, migrations.RunPython.noop),
    ]
