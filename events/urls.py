"""The public catalogue, under /event-types/."""

from django.urls import path

from . import views

urlpatterns = [
    path("", views.public_page, name="event_types"),
    path("openapi.json", views.public_document, name="event_types_document"),
]
