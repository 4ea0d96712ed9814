"""The page that shows which of the newest events a label filter accepts."""

from __future__ import annotations

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from events import filter_preview
from subscriptions.fields import LabelFilterFormField
from subscriptions.models import Subscription, event_pattern_validator

PERMISSIONS = ["subscriptions.view_subscription", "events.view_event"]


class PreviewForm(forms.Form):
    event_type = forms.CharField(
        label=gettext_lazy("Event type"), validators=[event_pattern_validator], widget=UnfoldAdminTextInputWidget
    )
    label_filter = LabelFilterFormField(
        label=gettext_lazy("Label filter"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("JSON, as in the form of a subscription. Empty: all events of the type."),
    )


def view(request: HttpRequest) -> HttpResponse:
    """The form of a subscription posts its fields here, too."""
    if not request.user.has_perms(PERMISSIONS):
        raise PermissionDenied
    form = PreviewForm(request.POST if request.method == "POST" else None)
    result = None
    if form.is_valid():
        result = filter_preview.preview(form.cleaned_data["event_type"], form.cleaned_data["label_filter"])
    context = {
        **admin.site.each_context(request),
        "title": _("Preview of a label filter"),
        "opts": Subscription._meta,
        "form": form,
        "result": result,
    }
    return TemplateResponse(request, "console/filter_preview.html", context)
