"""The API as a whole: its resources, its errors and its documentation."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from webhookhub import __version__

from . import backfill, deadletters, deliveries, events, problems, saga_facts, sagas, subscriptions
from .documentation import guarded
from .problems import ProblemDocument

DESCRIPTION = """
Send events, see what became of them, and follow the workflows that run over them. Every request carries an API key:
`Authorization: Bearer whk_…`.
Errors are problem documents (RFC 9457) that name the field. Lists go on with the `next` of the page before.
"""


class HubAPI(NinjaAPI):
    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**kwargs)
        shape = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"] |= {**shape.pop("$defs"), "ProblemDocument": shape}
        return schema


api = HubAPI(
    title="WebhookHub",
    version=__version__,
    description=DESCRIPTION.strip(),
    urls_namespace="api",
    docs_decorator=guarded,
)
problems.install(api)
api.add_router("/v1/events", events.router)
api.add_router("/v1/deliveries", deliveries.router)
api.add_router("/v1/dead-letters", deadletters.router)
api.add_router("/v1/subscriptions", subscriptions.router)
api.add_router("/v1/subscriptions", backfill.router)
# These add to the router of `sagas`: an address belongs to one router, and they share some.
SAGA_OPERATIONS = (saga_facts,)
api.add_router("/v1/sagas", sagas.router)
