"""URLs under /api/."""

from django.urls import URLPattern, path, re_path

from .application import api
from .views import not_found, operation

DOCUMENTATION = ("openapi-json", "openapi-view")

_patterns, _name, _namespace = api.urls
for _pattern in _patterns:
    if isinstance(_pattern, URLPattern) and _pattern.name == "api-root":
        _pattern.callback = not_found  # ninja needs the URL, but there is nothing to show
    elif isinstance(_pattern, URLPattern) and _pattern.name not in DOCUMENTATION:
        _pattern.callback = operation(_pattern.callback)

urlpatterns = [path("", (_patterns, _name, _namespace)), re_path(r"^", not_found)]
