"""The pages that confirm and run a requeue: of selected dead letters, and of all that match a filter.

A requeue of all that match runs in portions, one request each. The page carries the signed state of the run; a script
submits it, or a button without scripts. Sending a page twice requeues nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from events.models import Event
from sagas.models import Saga
from sagas.waiting import held_back
from subscriptions.models import Subscription
from webhookhub import signed_state
from webhookhub.auditlog.render import object_text
from webhookhub.console import format
from webhookhub.ids import new_token

from . import bulk_requeue
from .bulk_requeue import SAMPLE, Part, Selection
from .forms import ConfirmForm, FilterForm, LimitForm, RequeueForm, read_ids
from .models import DeadLetter
from .requeue import PERMISSION, InvalidRequeue, RequeueResult, requeue, required_permissions, successors

TEMPLATES = "admin/deadletters/deadletter"
VIEW_PERMISSION = "deadletters.view_deadletter"
PURPOSE = "deadletters.requeue"
PORTION = 1000
DEFAULT_LIMIT = 1000
# Messages travel in a cookie or the session.
MAX_NAMED = 20
MAX_SHOWN = 50
SUBSCRIPTION_COLUMNS = ("event_type", "callback_url", "active", "verified", "disabled_at", "customer_disabled_at")


def requeue_selected(request: HttpRequest) -> HttpResponse:
    """GET asks for a reason for the dead letters of `?ids=1,2`; POST requeues them."""
    if not request.user.has_perms([PERMISSION, VIEW_PERMISSION]):
        raise PermissionDenied
    if request.method != "POST":
        ids = request.GET.get("ids", "")
        if "," in ids and not request.user.has_perms(required_permissions(many=True)):
            raise PermissionDenied
        return confirm_selected(request, RequeueForm(initial={"ids": ids}))
    form = RequeueForm(request.POST)
    if not form.is_valid():
        return confirm_selected(request, form)
    try:
        data = form.cleaned_data
        results = requeue(data["ids"], by=request.user, reason=data["reason"], allow_waiting=data["allow_waiting"])
    except InvalidRequeue as error:
        form.refuse(error)
        return confirm_selected(request, form)
    _add_messages(request, results)
    if skipped := len(data["ids"]) - len(results):
        messages.warning(request, _not_ended(skipped))
    if len(results) == 1:
        return HttpResponseRedirect(format.page_url(DeadLetter, results[0].dead_letter_id))
    return HttpResponseRedirect(FilterForm(request.GET).list_url)


def confirm_selected(request: HttpRequest, form: RequeueForm) -> HttpResponse:
    """The URL keeps the filter of the list, so that the page can link back to it."""
    filter_form = FilterForm(request.GET)
    letters = _selected(str(form["ids"].value() or ""))
    after = successors(letters)
    pending = [letter for letter in letters if letter.pk not in after]
    rows = pending + [letter for letter in letters if letter.pk in after]
    context: dict[str, Any] = {
        "form": form,
        "count": len(pending),
        "before": len(letters) - len(pending),
        "total": len(letters),
        "recipients": _recipients(pending),
        "rows": [_row(letter, after.get(letter.pk)) for letter in rows[:MAX_SHOWN]],
        "action": f"{reverse('admin:deadletters_deadletter_requeue')}?{urlencode(filter_form.query)}",
        "list_url": filter_form.list_url,
    }
    return _page(request, "requeue", _("Requeue dead letters"), context)


@dataclass(frozen=True)
class Run:
    """The state of a requeue of all that match. It requeues what the confirmation has shown and nothing else."""

    conditions: dict[str, Any]  # of the filter
    limit: int
    ids: list[int]
    more: bool  # others match, too
    token: str
    confirmed: dict[str, Any] = field(default_factory=dict)  # the reason, and whether deliveries may wait
    done: int = 0  # ids in the portions so far
    requeued: int = 0

    @property
    def skipped(self) -> int:
        """Requeued by someone else since the confirmation."""
        return len(self.ids) - self.requeued

    def signed(self, user: int | None) -> str:
        return signed_state.sign(vars(self), PURPOSE, user)

    @classmethod
    def read(cls, text: str, user: int | None) -> Run:
        return cls(**signed_state.read(text, PURPOSE, user, max_age=signed_state.MAX_PAGE_AGE))


def requeue_matching(request: HttpRequest) -> HttpResponse:
    """GET shows what matches the filter of the URL and asks for a reason; POST requeues the next portion."""
    if not request.user.has_perms([VIEW_PERMISSION, *required_permissions(many=True)]):
        raise PermissionDenied
    if request.method != "POST":
        return _confirm_matching(request, ConfirmForm())
    try:
        run = Run.read(request.POST.get("run", ""), request.user.pk)
    except signed_state.Expired:
        messages.error(request, signed_state.EXPIRED)
        return HttpResponseRedirect(request.get_full_path())
    form = ConfirmForm(run.confirmed or request.POST)
    if not form.is_valid():
        return _confirm_matching(request, form)
    run = replace(run, confirmed=form.cleaned_data)
    parts = -(-len(run.ids) // PORTION)
    part = Part(run.done // PORTION + 1, parts) if parts > 1 else None
    selection = bulk_requeue.audit_details(run.conditions, min(PORTION, run.limit), part)
    portion = run.ids[run.done : run.done + PORTION]
    try:
        results = requeue(portion, by=request.user, selection=selection, token=run.token, **run.confirmed)
    except InvalidRequeue as error:
        form.refuse(error)
        return _confirm_matching(request, form)
    requeued = run.requeued + sum(result.created for result in results)
    return _show_progress(request, replace(run, done=run.done + len(portion), requeued=requeued), results)


def _confirm_matching(request: HttpRequest, form: ConfirmForm) -> HttpResponse:
    filter_form, limit_form = FilterForm(request.GET), LimitForm({"limit": DEFAULT_LIMIT, **request.GET.dict()})
    context: dict[str, Any] = {
        "filter_form": filter_form,
        "limit_form": limit_form,
        "form": form,
        "list_url": filter_form.list_url,
        "count": 0,
    }
    if filter_form.is_valid() and limit_form.is_valid():
        letter_filter, limit = filter_form.letter_filter(), limit_form.cleaned_data["limit"]
        if letter_filter.requeued is False:  # the requeue skips requeued ones anyway
            letter_filter = replace(letter_filter, requeued=None)
        selection = bulk_requeue.preview(letter_filter, limit=limit)
        letters, more = selection.letters, selection.next is not None
        conditions, ids = letter_filter.as_json(), [letter.id for letter in letters]
        run = Run(conditions, limit, ids, more or letter_filter.search_is_cut, new_token())
        sample = letters[:SAMPLE]
        prefetch_related_objects(sample, Prefetch("event", Event.objects.defer("payload")), "subscription")
        context |= {
            "filter_text": _describe(conditions),
            "search_is_cut": letter_filter.search_is_cut,
            "run": run.signed(request.user.pk),
            "count": len(letters),
            "not_ended": _not_ended(selection.not_ended) if selection.not_ended else "",
            "more": more,
            "next_url": _next_url(filter_form, selection) if len(letters) < limit else "",
            "recipients": _recipients(letters),
            "rows": [_row(letter) for letter in sample],
        }
    return _page(request, "requeue_matching", _("Requeue all matching dead letters"), context)


def _not_ended(count: int) -> str:
    text = ngettext(
        "%(count)s dead letter is skipped: its delivery has not ended yet. Try again in a minute.",
        "%(count)s dead letters are skipped: their deliveries have not ended yet. Try again in a minute.",
        count,
    )
    return text % {"count": count}


def _next_url(filter_form: FilterForm, selection: Selection) -> str:
    """The same page for later failures, if the search stopped before the end."""
    if selection.next is None or selection.next.after is None:
        return ""
    return f"?{urlencode({**filter_form.query, 'since': selection.next.after.failed_at.isoformat(' ')})}"


def _show_progress(request: HttpRequest, run: Run, results: Sequence[RequeueResult]) -> HttpResponse:
    new = [(result.dead_letter_id, delivery_link(result.saga_id)) for result in results if result.created]
    context: dict[str, Any] = {
        "run": run,
        "signed": run.signed(request.user.pk) if run.done < len(run.ids) else "",
        "filter_text": _describe(run.conditions),
        "repeated": any(result.repeated for result in results),
        "url": request.get_full_path(),
        "list_url": FilterForm(request.GET).list_url,
        "latest": new[-MAX_NAMED:],
    }
    return _page(request, "progress", _("Requeue all matching dead letters"), context)


def _page(request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
    common = {**admin.site.each_context(request), "title": title, "opts": DeadLetter._meta}
    return TemplateResponse(request, f"{TEMPLATES}/{template}.html", {**common, **context})


def _describe(conditions: dict[str, Any]) -> str:
    """As the audit log shows it."""
    return format.visible(object_text("deadletter", None, "", {"filter": conditions}))


def _selected(ids: str) -> list[DeadLetter]:
    try:
        selected = read_ids(ids)
    except ValidationError:
        return []
    letters = DeadLetter.objects.filter(pk__in=selected).select_related("saga", "event", "subscription", "requeue")
    return list(letters.defer("payload_snapshot", "event__payload").order_by("-id"))


def _row(letter: DeadLetter, saga_id: int | None = None) -> dict[str, Any]:
    request = getattr(letter, "requeue", None) if saga_id else None
    subscription = getattr(letter, "subscription", None)  # prefetched; the database does not enforce the reference
    return {
        "letter": letter,
        "url": format.page_url(DeadLetter, letter.pk),
        "error": format.error(letter.final_error_code),
        "failed_at": format.local_time(letter.failed_at),
        "requeued": format_html(_("{} as {}"), request.requested_by, delivery_link(saga_id or 0)) if request else None,
        "waits": format.waiting_for(held_back(subscription)) if subscription else None,
    }


def _recipients(letters: Sequence[DeadLetter]) -> dict[str, Any]:
    """The subscriptions with most dead letters, and how many of the new deliveries would wait."""
    counts = Counter(letter.subscription_id for letter in letters)
    rows = Subscription.objects.only(*SUBSCRIPTION_COLUMNS).in_bulk(list(counts))
    notes = {pk: format.waiting_for(held_back(row)) for pk, row in rows.items()}
    largest = counts.most_common(MAX_NAMED)
    return {
        "rows": [{"name": str(rows[pk]), "count": count, "note": notes[pk]} for pk, count in largest if pk in rows],
        "others": len(counts) - len(largest),
        "count_of_others": counts.total() - sum(count for _, count in largest),
        "waiting": sum(count for pk, count in counts.items() if notes.get(pk)),
    }


def _add_messages(request: HttpRequest, results: Sequence[RequeueResult]) -> None:
    new, before = [], []
    for result in results:
        delivery = delivery_link(result.saga_id)
        if result.created:
            new.append(format_html(_("dead letter {} as {}"), result.dead_letter_id, delivery))
        else:
            by = _("dead letter {} by {} as {}")
            before.append(format_html(by, result.dead_letter_id, result.requested_by, delivery))
    if new:
        messages.success(request, format_html(_("Requeued: {}."), _joined(new)))
    if before:
        messages.warning(request, format_html(_("Already requeued: {}."), _joined(before)))


def _joined(parts: Sequence[SafeString]) -> SafeString:
    text = format_html_join("; ", "{}", ((part,) for part in parts[:MAX_NAMED]))
    rest = len(parts) - MAX_NAMED
    return format_html(_("{}; and {} more"), text, rest) if rest > 0 else text


def delivery_link(saga_id: int) -> SafeString:
    return format.link(format.page_url(Saga, saga_id), delivery_name(saga_id))


def delivery_name(saga_id: int) -> str:
    return _("delivery %(number)s") % {"number": saga_id}
