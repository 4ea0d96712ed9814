"""Why an event is refused."""


class InvalidEvent(ValueError):
    """A field is invalid; nothing was stored."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


class PayloadTooLarge(InvalidEvent):
    """The payload is longer than allowed."""


class ReservedEventType(InvalidEvent):
    """The event type is reserved for the hub."""


class EventConflict(Exception):
    """The source and external id belong to another event; nothing was stored."""

    def __init__(self, source: str, external_id: str, uid: str) -> None:
        super().__init__(
            f"external_id {external_id!r} of source {source!r} is event {uid}, which has another type, payload or "
            "labels"
        )
        self.source = source
        self.external_id = external_id
        self.uid = uid
