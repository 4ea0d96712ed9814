"""What the console answers where a definition is at fault: the file and what to do, as the API does."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from webhookhub.console import errors
from webhookhub.logs import Fact, log

from .parsing import InvalidDefinition


def explained(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For every view of workflows: each of them goes by the definitions, and writes nothing before it has read them."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except InvalidDefinition as error:
            log(Fact.WORKFLOW_DEFINITION_UNUSABLE, where=str(error))
            why = _("Workflows cannot be followed at the moment: %(error)s.") % {"error": error}
            return errors.unavailable(request, why)

    return answer
