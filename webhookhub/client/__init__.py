"""The producer's client: `Client(url, key).publish("order.created", {"order": 1}, external_id="order-1")`.

Needs `requests` and nothing else of the hub: no settings, no database.
"""

from .cells import Cells
from .client import Client, Endpoint, raise_for_failures
from .deliveries import Deliveries, DeliveryRequest
from .errors import (
    Conflict,
    FieldError,
    Forbidden,
    HubError,
    Invalid,
    RateLimited,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)
from .events import Event, Failed, Published, Result

__all__ = [
    "Cells",
    "Client",
    "Conflict",
    "Deliveries",
    "DeliveryRequest",
    "Endpoint",
    "Event",
    "Failed",
    "FieldError",
    "Forbidden",
    "HubError",
    "Invalid",
    "Published",
    "RateLimited",
    "Result",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "raise_for_failures",
]
