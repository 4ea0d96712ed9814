"""The append-only log of events, and the inbox of events to be routed."""

from __future__ import annotations

from collections.abc import Collection

from django.db import models
from django.utils.translation import gettext_lazy as _

from webhookhub.db.clock import NewUid, UtcNow
from webhookhub.db.conditions import HasNoControls, IsJSON, IsTime, IsUid
from webhookhub.db.fields import ExactTextField, JSONTextField
from webhookhub.ids import new_uid

EVENT_TYPE_LENGTH = 100
DEFAULT_SOURCE = "default"


class EventQuerySet(models.QuerySet["Event"]):
    def among(self, ids: Collection[int], *, event_type: str | None, source: str | None) -> set[int]:
        """The ids whose event has this type and this source; None matches any.

        A query of its own, because a join may make the database read all events.
        """
        wanted = {"event_type": event_type, "source": source}
        conditions = {name: value for name, value in wanted.items() if value is not None}
        return set(self.filter(id__in=ids, **conditions).values_list("id", flat=True))


class Event(models.Model):
    """Never changed, never deleted."""

    id = models.BigAutoField(_("ID"), primary_key=True)
    # The public id and the webhook-id: a server may reuse an auto-increment after a crash.
    uid = models.UUIDField(_("uid"), unique=True, default=new_uid, db_default=NewUid(), editable=False)
    event_type = ExactTextField(_("event type"), max_length=EVENT_TYPE_LENGTH)
    source = ExactTextField(_("source"), max_length=100, db_default=DEFAULT_SOURCE)
    external_id = ExactTextField(_("external ID"), max_length=200, null=True, blank=True)
    # A trigger sets an empty one to the uid.
    correlation_id = ExactTextField(_("correlation ID"), max_length=200, db_default="")
    payload = JSONTextField()
    # Names and values; NULL: none. See labels.py.
    labels = JSONTextField(_("labels"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow())

    objects = EventQuerySet.as_manager()

    class Meta:
        db_table = "events"
        verbose_name = _("event")
        verbose_name_plural = _("events")
        indexes = [
            models.Index(fields=["created_at"], name="idx_event_created"),
            models.Index(fields=["event_type", "created_at"], name="idx_event_type"),
            models.Index(fields=["correlation_id"], name="idx_event_correlation"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["source", "external_id"], name="uniq_event_source_external"),
            # Producers may insert events by SQL.
            models.CheckConstraint(condition=IsUid("uid"), name="chk_event_uid"),
            models.CheckConstraint(condition=HasNoControls("correlation_id"), name="chk_event_correlation_id"),
            models.CheckConstraint(condition=IsJSON("payload"), name="chk_event_payload"),
            models.CheckConstraint(condition=IsTime("created_at"), name="chk_event_created_at"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.uid}"


class RoutingInbox(models.Model):
    """Events to be routed. A trigger on `events` fills it, the router empties it.

    A row is committed together with its event, so an event that commits late is never skipped.
    """

    event_id = models.BigIntegerField(primary_key=True)
    event_type = ExactTextField(max_length=EVENT_TYPE_LENGTH)
    labels = JSONTextField(null=True)

    class Meta:
        db_table = "routing_inbox"

    def __str__(self) -> str:
        return f"event {self.event_id}"


class EventType(models.Model):
    """The declaration of an event type. `catalogue` writes it; texts are JSON where they are not empty."""

    id = models.BigAutoField(primary_key=True)
    name = ExactTextField(_("name"), max_length=EVENT_TYPE_LENGTH, unique=True)
    description = models.TextField(_("description"), blank=True, default="")
    # `group` is a word of SQL.
    group = ExactTextField(_("group"), max_length=100, blank=True, default="", db_column="group_name")
    sample = models.TextField(_("sample payload"), blank=True, default="")
    json_schema = models.TextField(_("JSON Schema"), blank=True, default="")
    label_pointers = models.TextField(_("label pointers"), blank=True, default="")
    strict = models.BooleanField(_("strict"), default=False, help_text=_("Refuse payloads that break the schema."))
    deprecated_at = models.DateTimeField(_("deprecated at"), null=True, blank=True)
    deprecation_note = ExactTextField(_("deprecation note"), max_length=500, blank=True, default="")
    created_at = models.DateTimeField(_("created at"), db_default=UtcNow(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=UtcNow(), editable=False)

    class Meta:
        db_table = "event_types"
        verbose_name = _("event type")
        verbose_name_plural = _("event types")

    def __str__(self) -> str:
        return str(self.name)


class EventTypeVersion(models.Model):
    """One row. Triggers raise `version` with every change of a declaration, in the same transaction."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    version = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "event_type_version"
        default_permissions = ()  # nobody edits it

    def __str__(self) -> str:
        return str(self.version)
