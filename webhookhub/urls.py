"""The console at /admin/, the API at /api/, the public catalogue, and the console's choice of language."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from django.views.i18n import set_language

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("api.urls")),
    path("event-types/", include("events.urls")),
    path("language/", set_language, name="set_language"),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
handler400 = "api.views.bad_request"
handler500 = "api.views.server_error"
