"""The console at /admin/; the root leads there."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

admin.site.site_header = admin.site.site_title = "WebhookHub"
admin.site.index_title = "Deliveries"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
