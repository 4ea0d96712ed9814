"""Which language a page is in: the one that its viewer chose, or that the browser asks for."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

API = "/api/"


class PageLanguage(LocaleMiddleware):
    """Programs are answered in one language, whatever they say they accept: they compare what they read."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(API):
            translation.activate(settings.LANGUAGE_CODE)
            return
        super().process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if request.path_info.startswith(API) else super().process_response(request, response)
