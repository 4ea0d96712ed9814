"""The API: its resources, errors and OpenAPI schema."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from webhookhub import __version__

from . import deadletters, deliveries, events, problems, saga_facts, sagas, subscriptions
from .problems import ProblemDocument
from .views import documentation

DESCRIPTION = """
Send events, look up their deliveries, and follow business workflows. Send an API key with every request:
`Authorization: Bearer whk_…`.
Errors are problem documents (RFC 9457) that name the field. To get the next page of a list, send `next` as `cursor`.
"""


class HubAPI(NinjaAPI):
    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**kwargs)
        problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"] |= {**problem.pop("$defs"), "ProblemDocument": problem}
        return schema


api = HubAPI(
    title="WebhookHub",
    version=__version__,
    description=DESCRIPTION.strip(),
    urls_namespace="api",
    docs_decorator=documentation,
)
problems.install(api)
api.add_router("/v1/events", events.router)
api.add_router("/v1/deliveries", deliveries.router)
api.add_router("/v1/dead-letters", deadletters.router)
api.add_router("/v1/subscriptions", subscriptions.router)
# saga_facts adds to the router of `sagas`, because a path belongs to one router.
SAGA_OPERATIONS = (saga_facts,)
api.add_router("/v1/sagas", sagas.router)
