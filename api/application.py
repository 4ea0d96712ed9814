"""The API: its resources, errors and OpenAPI schema."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from pydantic.json_schema import models_json_schema

from webhookhub import __version__

from . import (
    deadletters,
    deliveries,
    endpoints,
    event_types,
    events,
    parsing,
    problems,
    requests,
    saga_facts,
    sagas,
    subscriptions,
)
from .problems import ProblemDocument
from .schemas.events import EventIn
from .views import documentation

DESCRIPTION = """
Send events, look up their deliveries, and follow business workflows. Send an API key with every request:
`Authorization: Bearer whk_…`.
Errors are problem documents (RFC 9457) that name the field. To get the next page of a list, send `next` as `cursor`.
"""


class HubAPI(NinjaAPI):
    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        """Adds the models that ninja neither reads nor writes itself."""
        schema = super().get_openapi_schema(**kwargs)
        _, added = models_json_schema(
            [(ProblemDocument, "validation"), (EventIn, "validation")], ref_template=parsing.REFERENCE
        )
        schema["components"]["schemas"] |= added["$defs"]
        return schema


api = HubAPI(
    title="WebhookHub",
    version=__version__,
    description=DESCRIPTION.strip(),
    urls_namespace="api",
    docs_decorator=documentation,
)
problems.install(api)
api.add_router("/v1/events", events.resource.router)
api.add_router("/v1/event-types", event_types.resource.router)
api.add_router("/v1/catalogue", event_types.whole.router)
api.add_router("/v1/requests", requests.resource.router)
api.add_router("/v1/deliveries", deliveries.resource.router)
api.add_router("/v1/dead-letters", deadletters.resource.router)
api.add_router("/v1/subscriptions", subscriptions.resource.router)
api.add_router("/v1/endpoints", endpoints.resource.router)
# saga_facts adds to the router of `sagas`, because a path belongs to one router.
SAGA_OPERATIONS = (saga_facts,)
api.add_router("/v1/sagas", sagas.router)
