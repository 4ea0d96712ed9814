"""The console at /admin/, to which the root leads; the API under /api/."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("api.urls")),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
handler400 = "api.urls.bad_request"
handler500 = "api.urls.server_error"
