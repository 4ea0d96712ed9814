"""A resource of the API: registers its operations, with their keys, errors and bodies in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ninja import Router
from pydantic import BaseModel

from . import parsing, problems
from .auth import ApiKeyAuth

BODY_ERRORS = (411, 413, 415)
Body = type[BaseModel] | None
View = TypeVar("View", bound=Callable[..., Any])


class Resource:
    """Every operation names its response, its summary and the errors besides those of all operations.

    A GET requires `read` of the key, all other methods require `write`.
    """

    def __init__(self, tag: str, *, read: ApiKeyAuth, write: ApiKeyAuth | None = None) -> None:
        self.router = Router(tags=[tag])
        self._read = read
        self._write = write

    def get(self, path: str, response: Any, summary: str, *errors: int) -> Callable[[View], View]:
        return self._operation("GET", path, response, summary, problems.documented(*errors))

    def post(
        self,
        path: str,
        response: Any,
        summary: str,
        *errors: int,
        body: Body = None,
        body_required: bool = True,
        parameters: Sequence[Mapping[str, Any]] = (),
        auth: ApiKeyAuth | None = None,
    ) -> Callable[[View], View]:
        """`parameters` are added to the documentation: the operation reads them itself. `auth` replaces `write`."""
        documented = problems.documented(*errors)
        if body:
            documented = problems.documented(*errors, *BODY_ERRORS) | parsing.documented(body, required=body_required)
        if parameters:
            documented["parameters"] = list(parameters)
        return self._operation("POST", path, response, summary, documented, auth)

    def patch(
        self, path: str, response: Any, summary: str, *errors: int, body: type[BaseModel]
    ) -> Callable[[View], View]:
        documented = problems.documented(*errors, *BODY_ERRORS) | parsing.documented(body)
        return self._operation("PATCH", path, response, summary, documented)

    def put(
        self, path: str, response: Any, summary: str, *errors: int, body: type[BaseModel]
    ) -> Callable[[View], View]:
        documented = problems.documented(*errors, *BODY_ERRORS) | parsing.documented(body)
        return self._operation("PUT", path, response, summary, documented)

    def delete(self, path: str, response: Any, summary: str, *errors: int) -> Callable[[View], View]:
        return self._operation("DELETE", path, response, summary, problems.documented(*errors))

    def _operation(
        self,
        method: str,
        path: str,
        response: Any,
        summary: str,
        documented: dict[str, Any],
        auth: ApiKeyAuth | None = None,
    ) -> Callable[[View], View]:
        auth = auth or (self._read if method == "GET" else self._write)
        register: Callable[[View], View] = self.router.api_operation(
            [method], path, auth=auth, response=response, summary=summary, openapi_extra=documented
        )
        return register
