"""Workflow runs in the console: the list, the page of a run, and the definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.models import Event
from sagas.models import Saga
from sagas.transitions import TERMINAL
from webhookhub.console import error_pages, format
from webhookhub.console.base import ReadOnlyAdmin
from webhookhub.console.overview import DAY, WEEK, Span
from webhookhub.db import clock, keyset
from webhookhub.logs import Log, log
from webhookhub.stats import workflow_periods
from webhookhub.stats.workflow_periods import WorkflowSummary

from . import diagram, history, labels, lookup, redelivery, stats, versions, views
from .blockers import blockers
from .definition import Step
from .filters import RunFilter
from .forms import ListForm
from .models import Instance
from .parsing import InvalidDefinition
from .state import OPEN
from .timeline import MAX_FACTS, Entry, timeline

MAY_SEE_EVENTS, MAY_SEE_DELIVERIES = "events.view_event", "sagas.view_saga"
PAGE = 50
# Rows that one page reads where no index covers all conditions.
WINDOW = 5000
MONTH = Span("month", gettext_lazy("last 30 days"), timedelta(days=30), timedelta(days=1))
SPANS = (DAY, WEEK, MONTH)


def explain_invalid_definitions(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Respond with 503 and the file to fix. Views read the definitions before they write anything."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except InvalidDefinition as error:
            log(Log.WORKFLOW_DEFINITION_INVALID, where=str(error))
            why = _("Workflows are not available at the moment: %(error)s.") % {"error": error}
            return error_pages.unavailable(request, why)

    return wrapper


@admin.register(Instance)
class InstanceAdmin(ReadOnlyAdmin):
    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        urls = [
            path("stats/", wrap(self.stats_view), name="workflows_instance_stats"),
            path("definitions/", wrap(self.definitions_view), name="workflows_instance_definitions"),
            path("definitions/<str:name>/", wrap(self.definition_view), name="workflows_instance_definition"),
            path("<int:pk>/replay/", wrap(self.replay_view), name="workflows_instance_replay"),
            path("<int:pk>/act/<str:name>/", wrap(views.act), name="workflows_instance_act"),
            *super().get_urls(),
        ]
        for url in urls:
            url.callback = explain_invalid_definitions(url.callback)
        return urls

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._require_view(request)
        form = ListForm(request.GET, versions.in_force())
        if not form.is_valid():
            why = (f"{field}: {', '.join(map(str, messages))}" for field, messages in form.errors.items())
            raise BadRequest("; ".join(why))
        unknown = set(request.GET) - set(form.fields)
        if unknown:
            raise BadRequest(_("There is no filter %(name)s.") % {"name": repr(min(unknown)[:50])})
        now = clock.now()
        filter, values = form.filter(now), form.cleaned_data
        context = {"title": _("Workflow runs"), "form": form}
        if values["q"]:
            # An aggregate may have many runs. The conditions are checked on each, so that no other index is read.
            found = lookup.find(values["q"], PAGE if filter == RunFilter() else WINDOW)
            runs, cut = filter.matching(found)[:PAGE], len(found) == WINDOW
        else:
            lowest, above = filter.bounds()
            page = keyset.page(
                lambda limit: filter.newest_first(lowest, values["before"] or above, limit),
                PAGE,
                window=WINDOW,
                keep=None if filter.is_indexed else filter.matching,
            )
            runs, cut = page.rows, page.last is not None
            query = {name: value for name, value in values.items() if value and name != "before"}
            context["older"] = urlencode({**query, "before": page.last.id}) if page.last else ""
            context["first"] = urlencode(query) if values["before"] else ""
        rows = [(run, format.duration((run.completed_at or now) - run.started_at)) for run in runs]
        return self._page(request, "list", {**context, "rows": rows, "cut": cut})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._require_view(request)
        instance = self.get_object(request, object_id)
        if instance is None:
            redirect: Any = self._get_obj_does_not_exist_redirect  # type: ignore[attr-defined]
            response: HttpResponse = redirect(request, self.opts, object_id)
            return response
        entries = timeline(instance)
        states = history.positions(versions.definition_of(instance), [entry.fact for entry in entries])
        replay = reverse("admin:workflows_instance_replay", args=[instance.pk])
        context = {
            "title": f"{instance.saga_type} {instance.aggregate_id or instance.correlation_key}",
            "run": instance,
            "is_open": instance.status in OPEN,
            "diagram": diagram.of(instance),
            "blockers": blockers([instance])[instance.pk] if instance.status in OPEN else [],
            "replay": replay,
            "entries": [
                {**_entry(request, instance, entry), "state": state, "replay": f"{replay}?position={number}"}
                for number, (entry, (_fact, state)) in enumerate(zip(entries, states, strict=True), 1)
            ],
            "cut": len(entries) == MAX_FACTS,
            "actions": [
                {"title": action.title, "address": reverse("admin:workflows_instance_act", args=[instance.pk, name])}
                for name, action in views.ACTIONS.items()
                if request.user.has_perm(action.permission) and action.is_available(instance)
            ],
        }
        return self._page(request, "page", context)

    def stats_view(self, request: HttpRequest) -> HttpResponse:
        """The ADR's targets over time, for all workflows together and for each. Reads counters only."""
        self._require_view(request)
        span = next((span for span in SPANS if span.name == request.GET.get("span")), SPANS[0])
        steps = workflow_periods.series(*span.bounds(clock.now()), span.step)
        totals: dict[str, WorkflowSummary] = defaultdict(WorkflowSummary)
        for _at, by_name in steps:
            for name, summary in by_name.items():
                totals[name] += summary
        shown = versions.in_force().shown
        names = sorted({*shown, *totals})
        chosen = request.GET.get("workflow", "")
        if chosen and chosen not in names:
            raise Http404
        title_of = {name: shown[name].title if name in shown else name for name in names}
        rows = [(title_of[name], name, stats.targets_of(totals[name])) for name in names]
        context = {
            "title": _("Workflow stats"),
            "span": span,
            "spans": SPANS,
            "total": stats.targets_of(sum(totals.values(), WorkflowSummary())),
            "rows": rows,
            "chosen": chosen,
            "chosen_title": title_of.get(chosen, ""),
            "steps": [
                (
                    at,
                    stats.targets_of(
                        sum((by_name[name] for name in by_name if chosen in ("", name)), WorkflowSummary())
                    ),
                )
                for at, by_name in reversed(steps)
            ],
        }
        return self._page(request, "stats", context)

    def replay_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The state after each fact of a run; with `version`, beside its history under another version."""
        self._require_view(request)
        return self._page(request, "replay", views.replay(request, get_object_or_404(Instance, pk=pk)))

    def definitions_view(self, request: HttpRequest) -> HttpResponse:
        self._require_view(request)
        registry = versions.in_force()
        definitions = [
            (definition, registry.offers(definition)) for _name, definition in sorted(registry.shown.items())
        ]
        return self._page(request, "definitions", {"title": _("Workflow definitions"), "definitions": definitions})

    def definition_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """A workflow in the version in force, or the last one, with stats of its runs."""
        self._require_view(request)
        registry = versions.in_force()
        definition = registry.shown.get(name)
        if definition is None:
            raise Http404
        workflow_stats = stats.read(definition)
        if workflow_stats.sample:
            done_by = _("done by %(share)s %%")
            notes = {row.step.key: done_by % {"share": f"{row.share:.3g}"} for row in workflow_stats.steps}
        else:
            notes = {step.key: _("optional") if step.optional else " " for step in definition.steps}
        context = {
            "title": definition.title,
            "definition": definition,
            "versions": [other.version for other in registry.all() if other.name == name],
            "is_offered": registry.offers(definition),
            "diagram": diagram.svg(definition.title, diagram.boxes(definition, {}, notes)),
            "stats": workflow_stats,
            "sample_size": stats.SAMPLE,
            "steps": [(row, _types(row.step)) for row in workflow_stats.steps],
        }
        return self._page(request, "definition", context)

    def _require_view(self, request: HttpRequest) -> None:
        # These pages change nothing: actions have URLs of their own.
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/workflows/instance/{name}.html", whole)


def _entry(request: HttpRequest, instance: Instance, entry: Entry) -> dict[str, Any]:
    fact, event = entry.fact, entry.event
    may_retry = request.user.has_perm(redelivery.PERMISSION)
    retry = reverse("admin:workflows_instance_act", args=[instance.pk, "retry"])
    return {
        "fact": fact,
        "text": labels.fact(fact),
        "by": fact.actor or labels.ORIGINS[fact.origin],
        "reason": format.visible(fact.reason),
        "event": _link(request, MAY_SEE_EVENTS, event, event.event_type) if event else format.NOTHING,
        "deliveries": [
            {
                "text": _link(request, MAY_SEE_DELIVERIES, saga, labels.delivery(saga)),
                "retry": f"{retry}?delivery={saga.pk}" if may_retry and saga.status in TERMINAL else "",
            }
            for saga in entry.deliveries
        ],
    }


def _link(request: HttpRequest, permission: str, row: Event | Saga, text: str) -> str:
    return format.link(format.page_url(type(row), row.pk), text) if request.user.has_perm(permission) else text


def _types(step: Step) -> SafeString:
    rows = ((labels.ROLES[role], ", ".join(types)) for role, types in step.types().items() if types)
    return format_html_join(mark_safe("<br>"), "{}: {}", rows)
