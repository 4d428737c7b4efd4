"""The Django admin pages of applications. They show no client secret, code or token."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from accounts import audit_trail
from accounts.admin_site import ModelAdmin
from accounts.rights import named_groups
from accounts.templatetags.times import ago, moment
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.administration import checks, rights, secret_page, shown
from oauth_bridge.administration.application_acts import ACTS
from oauth_bridge.administration.application_form import GROUPS, ApplicationForm
from oauth_bridge.applications import logos, look_alikes, registry
from oauth_bridge.applications.fields import SECTIONS
from oauth_bridge.models import Application, ApplicationSecret, Consent

# A registration needs only these fields. All other fields are optional.
NEEDED = ["name", "client_type", "redirect_uris"]
NOT_AT_FIRST = [*NEEDED, "remove_logo", "remove_used", "client_id", "created", "updated"]


@admin.register(Application)
class ApplicationAdmin(ModelAdmin):
    """The list and forms of applications, without applications that the administrator may not see."""

    list_display = ("named", "state", "kind", "failed", "secret_ends", "last_sign_in")
    list_display_links = None
    search_help_text = gettext_lazy("Name, host or client ID")
    form = ApplicationForm
    is_deletion_proven = True
    list_filter = ["is_enabled", "is_trusted", "is_restricted"]
    search_fields = ["name", "client_id", "homepage", "redirect_uris"]
    actions = ["disable", "enable"]
    readonly_fields = ["client_id", "created", "updated"]
    saved_elsewhere = frozenset({"is_restricted"})
    saved_with_form = frozenset({"logo", "updated"})
    fieldsets = SECTIONS
    add_fieldsets = [
        (None, {"fields": NEEDED}),
        (
            gettext_lazy("More: logo, operator, policy, who may use it"),
            {
                "classes": ["collapse"],
                "fields": [name for _, options in fieldsets for name in options["fields"] if name not in NOT_AT_FIRST],
            },
        ),
    ]

    def view_on_site(self, obj: Application) -> str:
        return reverse("admin:application", args=[obj.pk])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Application]:
        return rights.applications(request, rights.VIEW, rights.CHANGE)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Application:
        if not self.has_view_permission(request):
            raise PermissionDenied
        found: Application | None = super().get_object(request, object_id, from_field)
        if found is None:
            raise Http404
        return found

    def has_view_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.VIEW, obj) or rights.may(request, rights.CHANGE, obj)

    def has_change_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.CHANGE, obj)

    def has_switch_permission(self, request: HttpRequest) -> bool:
        return rights.may(request, rights.SWITCH)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        page = super().get_changelist_instance(request)
        page.result_list = list(page.result_list)
        found, names = checks.summaries(page.result_list), shown.told_apart(page.result_list)
        for row in page.result_list:
            row.summary, row.shown_name = found[row.pk], names[row.client_id].name
        return page

    @admin.display(description=gettext_lazy("application"), ordering="name")
    def named(self, application: Application) -> str:
        return render_to_string("admin/oauth_bridge/application/_named.html", {"application": application})

    @admin.display(description=gettext_lazy("state"))
    def state(self, application: Application) -> str:
        state = application.summary.state  # type: ignore[attr-defined]
        return format_html('<span class="badge {}">{}</span>', state.badge, state.word)

    @admin.display(description=gettext_lazy("kind"), ordering="client_type")
    def kind(self, application: Application) -> str:
        kind = str(capfirst(checks.KINDS[application.client_type]))
        trusted = _("trusted")
        return f"{kind}, {trusted}" if application.is_trusted else kind

    @admin.display(description=gettext_lazy("Failed, 24 h"))
    def failed(self, application: Application) -> str:
        number = application.summary.failed  # type: ignore[attr-defined]
        return format_html('{}<span class="word"> {}</span>', number, _("failed in 24 h"))

    @admin.display(description=gettext_lazy("Secret ends"))
    def secret_ends(self, application: Application) -> str:
        summary = application.summary  # type: ignore[attr-defined]
        if application.is_public:
            return _("has none")
        if not summary.has_secret:
            return format_html('<span class="danger-text">{}</span>', _("ended"))
        return moment(summary.secret_ends_at) if summary.secret_ends_at else _("never")

    @admin.display(description=gettext_lazy("Last sign-in"))
    def last_sign_in(self, application: Application) -> str:
        at = application.summary.last_at  # type: ignore[attr-defined]
        return ago(at) if at else "–"

    def get_readonly_fields(self, request: HttpRequest, obj: Application | None = None) -> list[str]:
        fixed = ["client_id", "created", "updated"]
        if obj:
            fixed.append("client_type")  # decides whether the application has a secret
            # A trusted application gets codes without a consent page.
            if obj.is_trusted and not rights.may(request, rights.TRUST):
                fixed += ["redirect_uris", "initiate_login_uri", "post_logout_redirect_uris"]
        return fixed

    def get_form(
        self, request: HttpRequest, obj: Application | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        if "new_group" not in flatten_fieldsets(self.get_fieldsets(request, obj)):
            del form.base_fields["new_group"]
        form.seen, form.person = rights.applications(request, rights.VIEW), request.user  # type: ignore[attr-defined]
        return form

    def get_fieldsets(self, request: HttpRequest, obj: Application | None = None) -> Any:
        hidden = set() if obj and obj.logo else {"remove_logo"}
        if request.method != "POST":  # only a submitted form can remove addresses
            hidden.add("remove_used")
        if not request.user.has_perm(rights.CHANGE if obj else rights.ADD):  # ownership is not enough
            hidden |= GROUPS
        if not request.user.has_perm("auth.add_group"):
            hidden.add("new_group")
        sets: Any = self.fieldsets if obj else self.add_fieldsets
        shown = [
            (title, options, [name for name in options["fields"] if name not in hidden]) for title, options in sets
        ]
        return [(title, {**options, "fields": fields}) for title, options, fields in shown if fields]

    def save_model(self, request: HttpRequest, obj: Application, form: Any, change: bool) -> None:
        picture = form.cleaned_data["new_logo"]
        if picture or form.cleaned_data.get("remove_logo"):
            logos.replace(obj, picture)
        with registry.audited(obj) if change else nullcontext():
            super().save_model(request, obj, form, change)
        if not change:
            events.write(Event.APPLICATION_REGISTERED, client_id=obj.client_id)
        elif form.changed_data:
            events.write(Event.APPLICATION_CHANGED, client_id=obj.client_id, fields=" ".join(form.changed_data))
        if "name" in form.changed_data:
            alike = [each.pk for each in look_alikes.find(obj.name, obj.pk)]
            for other in rights.applications(request, rights.VIEW).filter(pk__in=alike):
                text = _("People could take “%(other)s” for this one.") % {"other": other.name}
                self.message_user(request, text, messages.WARNING)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        # Without this condition, a form without fields for groups would open the application to everybody.
        if GROUPS & set(form.changed_data):
            typed = form.cleaned_data.get("new_group")
            made, _names = named_groups([typed]) if typed else ([], [])
            registry.set_groups(form.instance, [*form.cleaned_data["groups"], *made])
        if not change:
            registry.write_registration(form.instance)

    def audited_as(self, obj: Application) -> audit_trail.Subject:
        return registry.subject(obj)

    def response_add(  # type: ignore[override]
        self, request: HttpRequest, obj: Application, post_url_continue: str | None = None
    ) -> HttpResponseBase:
        if obj.is_public:
            text = _("Its client ID is %(client_id)s.") % {"client_id": obj.client_id}
            self.message_user(request, text, messages.SUCCESS)
            return redirect(self.view_on_site(obj) if self.has_view_permission(request, obj) else "admin:index")
        return secret_page.rotate(request, obj)

    @admin.action(description=gettext_lazy("Switch off …"), permissions=["switch"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Application]) -> HttpResponse | None:
        ends = _("Nobody can sign in to them then, and all their access ends at once.")
        return self._switch(request, chosen, "switch-off", ends, is_enabled=False)

    @admin.action(description=gettext_lazy("Switch on …"), permissions=["switch"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Application]) -> HttpResponse | None:
        ends = _("People can sign in to them again. Access that ended stays ended.")
        return self._switch(request, chosen, "switch-on", ends, is_enabled=True)

    def _switch(
        self, request: HttpRequest, chosen: QuerySet[Application], name: str, ends: str, *, is_enabled: bool
    ) -> HttpResponse | None:
        if self.are_too_many(request, chosen):
            return None
        act, changing = ACTS[name], chosen.exclude(is_enabled=is_enabled)

        def change(answers: dict[str, Any]) -> None:
            for application in list(changing):
                act.change(request, application, answers)

        done = ngettext_lazy("%(count)d application changed.", "%(count)d applications changed.", "count")
        return self.act_on_many(request, chosen, changing, change, label=act.label, ends=ends, done=done, form=act.form)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the application, and counts of dependent rows. Django would list each row, up to millions."""
        (application,) = objs
        counts = {
            gettext_lazy("people who have allowed it"): Consent.objects.filter(application=application).count(),
            gettext_lazy("client secrets"): ApplicationSecret.objects.filter(application=application).count(),
            gettext_lazy("sign-ins in the last 30 days"): checks.month(application),
        }
        return [str(application)], counts, set(), []

    def typed_to_delete(self, obj: Application) -> str:
        is_used = Consent.objects.filter(application=obj).exists() or checks.summaries([obj])[obj.pk].last_at
        return " ".join(obj.name.split()) if is_used else ""

    def delete_model(self, request: HttpRequest, obj: Application) -> None:
        registry.delete(obj)
