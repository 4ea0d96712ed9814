"""What can be wrong with an event that a producer sends."""


class InvalidEvent(ValueError):
    """A field is not acceptable; nothing was stored."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


class PayloadTooLarge(InvalidEvent):
    """More than an event may carry."""


class ReservedEventType(InvalidEvent):
    """A type that only the hub itself may use."""


class EventConflict(Exception):
    """The same source and external id were used before for another event; nothing was stored."""

    def __init__(self, source: str, external_id: str, uid: str) -> None:
        super().__init__(
            f"external_id {external_id!r} of source {source!r} is event {uid}, which has another type or payload"
        )
        self.source = source
        self.external_id = external_id
        self.uid = uid
