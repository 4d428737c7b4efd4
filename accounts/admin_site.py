"""The admin site, and the base class of its model pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, ClassVar, cast
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin import actions
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts import audit_trail, return_path, rights
from accounts.errors import duration
from accounts.factors import authenticators as factors
from accounts.models import User
from accounts.pages import person_context
from accounts.sign_in.reauthentication import proof_first

QUERY_MAX_LENGTH = 500
MOST_AT_ONCE = 1_000  # objects of an action that changes or deletes them one by one
MOST_NAMED = 10  # of the chosen objects, on the page that asks
ACTION_FIELDS = ("action", "select_across", ACTION_CHECKBOX_NAME)
NOT_TYPED = gettext_lazy("What you typed is something else. Nothing is deleted.")


class ModelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    view_on_site: Any = False
    list_per_page = list_max_show_all = 30  # DATA_UPLOAD_MAX_NUMBER_FIELDS limits the rows that one action may select

    audited_as: Any  # returns the `audit_trail.Subject` of an object
    is_deletion_proven: ClassVar[bool] = False
    # Form fields that another function saves, and columns that `save_model` always saves.
    saved_elsewhere: ClassVar[frozenset[str]] = frozenset()
    saved_with_form: ClassVar[frozenset[str]] = frozenset()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Unless the object is new, save only the columns that the form changes and those of `saved_with_form`."""
        if not change:
            super().save_model(request, obj, form, change)
            return
        columns = {field.name for field in obj._meta.concrete_fields} - self.saved_elsewhere
        obj.save(update_fields=columns & {*form.changed_data, *self.saved_with_form})

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the form field, without the links that Django shows beside a select box: they open new windows."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field and isinstance(field.widget, RelatedFieldWidgetWrapper):
            field.widget = field.widget.widget
        return field

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> HttpResponseRedirect:
        page = self.get_view_on_site_url(obj)
        if page and self.has_view_permission(request, obj):
            return redirect(page)
        return super().response_post_save_change(request, obj)

    def are_too_many(self, request: HttpRequest, queryset: QuerySet[Any]) -> bool:
        if queryset.count() <= MOST_AT_ONCE:
            return False
        text = _("More than %(count)d are chosen, so nothing is done. Search or filter the list, and choose fewer.")
        self.message_user(request, text % {"count": MOST_AT_ONCE}, messages.ERROR)
        return True

    def may_manage(self, request: HttpRequest, obj: Any) -> bool:
        """Whether the administrator may change and delete this object. Django's permissions are required too."""
        return True

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or self.may_manage(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or self.may_manage(request, obj))

    def needs_proof(self, request: HttpRequest, object_id: str | None) -> bool:
        """Whether the page requires a recent proof of identity. On the page for a new object, `object_id` is None."""
        return False

    def changeform_view(  # type: ignore[override]
        self, request: HttpRequest, object_id: str | None = None, *more: Any, **options: Any
    ) -> HttpResponseBase:
        if self.needs_proof(request, object_id) and (question := proof_first(request)):
            return question
        try:
            return super().changeform_view(request, object_id, *more, **options)
        except IntegrityError:  # another request has just stored the same name or address: now the form says so
            return super().changeform_view(request, object_id, *more, **options)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:  # type: ignore[override]
        try:
            chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
            for key in chosen if request.POST.get("select_across", "0") == "0" else []:
                self.opts.pk.run_validators(self.opts.pk.to_python(key))
        except ValidationError as error:
            raise BadRequest from error
        return super().changelist_view(request, extra_context)

    def act_on_many(
        self,
        request: HttpRequest,
        chosen: QuerySet[Any],
        changing: QuerySet[Any],
        change: Callable[[dict[str, Any]], object],
        *,
        label: Any,
        ends: Any,
        done: Any,
        form: type[forms.Form] = forms.Form,
        permitted: QuerySet[Any] | None = None,
    ) -> HttpResponse | None:
        """Return a page that asks the administrator to confirm. After the confirmation, call `change` and return None.

        `changing`: the permitted objects that need the change. If there are none, do not ask and do not call `change`.
        `permitted`: the chosen objects that the administrator may change; by default all. Used only for the message.
        """
        count = changing.count()
        asked = request.POST.get("post", "")  # the page sends the number that it asked about
        filled = form(request.POST if asked else None)
        if count and (not filled.is_valid() or (asked.isdigit() and asked != str(count))):
            context = {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": _("%(act)s: %(count)d chosen") % {"act": label, "count": count},
                "ends": ends,
                "label": label,
                "form": filled,
                "count": count,
                "names": list(map(str, changing[:MOST_NAMED])),
                "more": max(0, count - MOST_NAMED),
                "sent": [(name, value) for name in ACTION_FIELDS for value in request.POST.getlist(name)],
            }
            return TemplateResponse(request, "admin/ask.html", context)
        refused = 0 if permitted is None else chosen.count() - permitted.count()
        unchanged = chosen.count() - count - refused
        if count:
            change(filled.cleaned_data)
        said = done % {"count": count}
        if unchanged:
            rest = ngettext("%(count)d needed no change.", "%(count)d needed no change.", unchanged)
            said += " " + rest % {"count": unchanged}
        if refused:
            rest = ngettext("%(count)d you may not change.", "%(count)d you may not change.", refused)
            said += " " + rest % {"count": refused}
        self.message_user(request, said, messages.SUCCESS)
        return None

    def typed_to_delete(self, obj: Any) -> str:
        """The text that an administrator must type to delete the object; "" if no text is required."""
        return ""

    def delete_view(  # type: ignore[override]
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        obj = self.get_object(request, unquote(object_id))
        may_delete = bool(obj) and self.has_delete_permission(request, obj)
        if may_delete and self.is_deletion_proven and (question := proof_first(request)):
            return question
        expected = self.typed_to_delete(obj) if may_delete else ""
        if request.method == "POST" and expected and " ".join(request.POST.get("typed", "").split()) != expected:
            messages.error(request, NOT_TYPED)
            return redirect(request.path)
        page = self.get_view_on_site_url(obj) if may_delete and self.has_view_permission(request, obj) else None
        context = {"expected": expected, "absolute_url": page, **(extra_context or {})}
        return super().delete_view(request, object_id, context)

    def history_view(self, request: HttpRequest, object_id: str, *more: Any) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            return super().history_view(request, object_id, *more)
        subject = self.audited_as(obj)
        return redirect(f"{reverse('admin:trail')}?{urlencode({'kind': subject.kind, 'key': subject.key})}")

    def log_addition(self, *args: Any) -> Any:
        """Do nothing. The audit trail replaces Django's log, whose rows keep names and addresses of deleted people."""

    log_change: Any = log_addition
    log_deletions: Any = log_addition

    def get_action_choices(self, request: HttpRequest, default_choices: Any = None) -> list[tuple[str, str]]:
        return super().get_action_choices(request, [("", _("With the chosen ones …"))])

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Return whether `list_filter` has the lookup. Other lookups would reveal hidden columns, such as digests."""
        return lookup.removesuffix("__exact") in [getattr(each, "parameter_name", each) for each in self.list_filter]


@admin.action(description=gettext_lazy("Delete …"), permissions=["delete"])
def delete_selected(model_admin: ModelAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
    if model_admin.is_deletion_proven and (question := proof_first(request)):
        return question
    if model_admin.are_too_many(request, queryset):
        return None
    expected = str(queryset.count()) if any(map(model_admin.typed_to_delete, queryset)) else ""
    if expected and request.POST.get("post") and request.POST.get("typed", "").strip() != expected:
        messages.error(request, NOT_TYPED)
        return None
    answer = actions.delete_selected(model_admin, request, queryset)
    if isinstance(answer, TemplateResponse):
        answer.context_data = {**(answer.context_data or {}), "expected": expected}
    return answer


def not_allowed(request: HttpRequest) -> HttpResponse:
    """Return a page with status 403 for a signed-in person who may not open the requested page."""
    person = cast(User, request.user)
    is_login = request.path == reverse("admin:login")
    return_to = return_path.requested(request) if is_login else request.get_full_path()
    context = {
        "person": person_context(person),
        "is_staff": person.is_staff,
        "return_to": return_to or reverse("admin:index"),
    }
    return render(request, "accounts/not_allowed.html", context, status=HTTPStatus.FORBIDDEN)


class AdminSite(admin.AdminSite):
    """Uses the service's sign-in page, so the limits of sign-ins also apply to administrators."""

    site_header = site_title = settings.SERVICE_NAME

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to sign-in, second factor or the requested page. Raises PermissionDenied for non-administrators."""
        return_to = return_path.requested(request) or reverse("admin:index")
        if self.has_permission(request):
            return redirect(return_to)
        if not request.user.is_authenticated:
            return redirect(return_path.sign_in_url(return_to))
        if not super().has_permission(request):
            raise PermissionDenied
        if factors.has_any(request.user):
            return redirect(return_path.url_of(factors.confirm_path(request.user), return_to))
        return_path.keep(request, return_to)
        text = _("Administrators need a second factor. Add a passkey or an authenticator app to go on.")
        messages.warning(request, text)
        return redirect("security")

    def has_permission(self, request: HttpRequest) -> bool:
        if not super().has_permission(request):
            return False
        return not settings.STAFF_SECOND_FACTOR or factors.has_confirmed(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Wrap the view: limit query string and rate of changes, record the actor, and catch LastAdministrator."""
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            # A longer search or filter would take seconds. PostgreSQL refuses NUL characters.
            for name, values in request.GET.lists():
                for text in (name, *values):
                    if len(text) > QUERY_MAX_LENGTH or ("\x00" in text and name != SEARCH_VAR):
                        raise BadRequest
            with audit_trail.by_request(request):
                if request.method == "POST" and self.has_permission(request):
                    is_act = "/act/" in request.path or "act" in request.GET
                    if seconds := audit_trail.seconds_to_wait(cast(User, request.user).pk, is_act=is_act):
                        return self._too_many_changes(request, seconds)
                try:
                    return inner(request, *args, **kwargs)
                except rights.LastAdministrator:  # the transaction of the change is rolled back
                    messages.error(request, rights.ADVICE)
                    return redirect(request.get_full_path())

        return checked

    def _too_many_changes(self, request: HttpRequest, seconds: int) -> HttpResponse:
        fields = [each for each in request.POST.lists() if each[0] != "csrfmiddlewaretoken"]
        context = {
            **self.each_context(request),
            "title": _("Too many changes"),
            "when": duration(seconds),
            "typed": [(name, value) for name, values in fields for value in values],
        }
        response = render(request, "admin/too_many_changes.html", context, status=HTTPStatus.TOO_MANY_REQUESTS)
        response["Retry-After"] = str(seconds)
        return response

    def get_urls(self) -> list[URLResolver | URLPattern]:
        """Return Django's URLs except `view_on_site`, which redirects to an object's public page: no object has one."""
        return [each for each in super().get_urls() if getattr(each, "name", "") != "view_on_site"]

    def logout(self, request: HttpRequest, *more: Any) -> HttpResponse:  # type: ignore[override]
        return redirect("account_logout")

    def password_change(self, request: HttpRequest, *more: Any) -> HttpResponse:  # type: ignore[override]
        return redirect("account_change_password")
