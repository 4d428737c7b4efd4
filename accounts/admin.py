"""The Django admin pages of people and groups. No page shows a password hash or a session."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_noop, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from accounts import audit_trail, rights
from accounts.admin_site import ModelAdmin, delete_selected
from accounts.form_fields import EmailField, NicknameField
from accounts.mail import composing
from accounts.models import Session, User
from accounts.profile import delete_accounts
from accounts.sessions.credential_changes import deactivate_all
from accounts.sign_in import sign_up
from config.infrastructure import events
from config.infrastructure.events import Event
from config.infrastructure.texts import refuse_control_characters

PRIVILEGES = ("is_staff", "is_superuser", "user_permissions")


class InvitationForm(forms.ModelForm):  # type: ignore[type-arg]
    email = EmailField("off")
    nickname = NicknameField(_("The person can change it."))

    class Meta:
        model = User
        fields = ("email", "nickname", "groups")


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    nickname = NicknameField()

    class Meta:
        model = User
        fields = ("nickname", "groups", *PRIVILEGES)
        labels: ClassVar = {
            "is_superuser": _("With every right"),
            "user_permissions": _("Chosen rights"),
        }
        help_texts: ClassVar = {
            "is_superuser": _("May see and change everything here, and give rights to others."),
            "user_permissions": _("What an administrator without every right may see and change."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "groups" in self.fields:
            offered = self.fields["groups"].queryset  # type: ignore[attr-defined]
            self.initial["groups"] = list(self.instance.groups.filter(pk__in=offered))

    def clean_groups(self) -> list[Group]:
        """Return the chosen groups. Add the person's groups that this administrator may not choose: they stay."""
        offered = self.fields["groups"].queryset  # type: ignore[attr-defined]
        return [*self.cleaned_data["groups"], *self.instance.groups.exclude(pk__in=offered)]

    def clean(self) -> dict[str, Any] | None:
        """Refuse to take rights from the last superuser. This runs in the transaction that saves the person."""
        if False in (self.cleaned_data.get("is_staff"), self.cleaned_data.get("is_superuser")):
            try:
                rights.keep_one([self.instance.pk])
            except rights.LastAdministrator:
                raise ValidationError(rights.ADVICE, code="last_administrator") from None
        return super().clean()


class PermissionField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Permission) -> str:
        return gettext(obj.name)


# fmt: off
# The database stores the names of permissions in English.
PERMISSIONS = [
    gettext_noop("Can add application"), gettext_noop("Can change application"),
    gettext_noop("Can delete application"), gettext_noop("Can view application"),
    gettext_noop("Can add group"), gettext_noop("Can change group"),
    gettext_noop("Can delete group"), gettext_noop("Can view group"),
    gettext_noop("Can add person"), gettext_noop("Can change person"),
    gettext_noop("Can delete person"), gettext_noop("Can view person"), gettext_noop("Can view activity record"),
    gettext_noop("Can correct e-mail addresses of people"),
]
# fmt: on

admin.site.disable_action("delete_selected")  # UserAdmin has its own


@admin.register(Group)
class GroupAdmin(ModelAdmin):
    """Only superusers may change or delete a group that has permissions, or give permissions to a group."""

    list_display = ("named",)
    list_display_links = None
    search_fields = ("name",)
    ordering = ("name",)
    actions = None  # Django's "delete selected" does not check whether each group has permissions
    audited_as = staticmethod(audit_trail.of_group)

    def view_on_site(self, obj: Group) -> str:
        return reverse("admin:group", args=[obj.pk])

    @admin.display(description=Group._meta.verbose_name, ordering="name")
    def named(self, group: Group) -> str:
        return format_html('<span class="named"><a href="{}"><bdi>{}</bdi></a></span>', self.view_on_site(group), group)

    def response_post_save_add(self, request: HttpRequest, obj: Group) -> HttpResponseRedirect:
        return self.response_post_save_change(request, obj)

    def needs_proof(self, request: HttpRequest, object_id: str | None) -> bool:
        return bool(request.user.is_superuser)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "name":
            field.validators.append(refuse_control_characters)
        return field

    def may_manage(self, request: HttpRequest, obj: Group) -> bool:
        return request.user.is_superuser or not obj.permissions.exists()

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        permissions = (_("Permissions"), {"classes": ["collapse"], "fields": ["permissions"]})
        return [(None, {"fields": ["name"]}), *([permissions] if request.user.is_superuser else [])]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs.update(
            queryset=rights.offered_permissions(self.admin_site),
            form_class=PermissionField,
            widget=forms.CheckboxSelectMultiple(),
            help_text=_("For members who are administrators. To say who may use an application, tick none."),
        )
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        changes = {"name": (form.initial["name"], obj.name)} if change else None
        audit_trail.write("group_changed" if change else "group_created", audit_trail.of_group(obj), changes)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        codenames = form.instance.permissions.values_list("codename", flat=True)
        subject = audit_trail.of_group(form.instance)
        with audit_trail.changes("group_changed", subject, lambda: {"permissions": list(codenames.all())}):
            super().save_related(request, form, formsets, change)

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        audit_trail.write("group_deleted", audit_trail.of_group(obj))
        super().delete_model(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Count the groups and their members. Do not list members: a group may contain every person."""
        people = User.objects.filter(groups__in=objs).distinct().count()
        return [str(group) for group in objs], {_("groups"): len(objs), _("people"): people}, set(), []


class UserAdmin(ModelAdmin):
    """Forms and actions for people. `oauth_bridge.administration.people` adds the list page."""

    add_form_template = "admin/accounts/user/invite.html"
    is_deletion_proven = True
    ordering = ("email",)
    actions = ("deactivate", delete_selected)
    audited_as = staticmethod(audit_trail.of_person)
    fieldsets = (
        (None, {"fields": ("nickname",)}),
        (_("Groups"), {"fields": ("groups",)}),
        (_("Administration"), {"fields": PRIVILEGES}),
    )

    def view_on_site(self, obj: User) -> str:
        return reverse("admin:person", args=[obj.pk])

    def may_manage(self, request: HttpRequest, obj: User) -> bool:
        return request.user.is_superuser or not (obj.is_staff or obj.is_superuser)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        return PRIVILEGES if obj and not request.user.is_superuser else ()

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        if obj:
            return self.fieldsets
        may_choose = self.has_change_permission(request) and self.offered_groups(request).exists()
        fields = ("email", "nickname", "groups") if may_choose else ("email", "nickname")
        return ((None, {"fields": fields}),)

    def offered_groups(self, request: HttpRequest) -> QuerySet[Group]:
        return Group.objects.all() if request.user.is_superuser else Group.objects.filter(permissions=None)

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = PersonForm if obj else InvitationForm
        return super().get_form(request, obj, change, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            kwargs["queryset"] = self.offered_groups(request)
            kwargs["help_text"] = _("Groups say who may use an application.")
        else:
            kwargs.update(queryset=rights.offered_permissions(self.admin_site), form_class=PermissionField)
        kwargs["widget"] = forms.CheckboxSelectMultiple()
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if not change:
            self.message_user(request, composing.invitation(request, obj, sign_up.invite(obj)), messages.SUCCESS)
            return
        rights_before = {name: form.initial[name] for name in ("is_staff", "is_superuser") if name in form.changed_data}
        super().save_model(request, obj, form, change)
        if "is_staff" in rights_before or rights_before.get("is_superuser"):
            rights.end_ownerships(obj)
        changes: dict[str, Any] = {name: (before, not before) for name, before in rights_before.items()}
        if "nickname" in form.changed_data:
            obj.change_profile()
            changes["nickname"] = (False, True)  # that it changed: entries are never deleted, so they have no names
        if changes:
            audit_trail.write("account_changed", audit_trail.of_person(obj), changes)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        subject = audit_trail.of_person(form.instance)
        with audit_trail.changes("account_changed", subject, lambda: _memberships(form.instance)):
            super().save_related(request, form, formsets, change)
        if {*PRIVILEGES} & {*form.changed_data}:
            events.write(Event.RIGHTS_CHANGED, person=form.instance.pk)

    def needs_proof(self, request: HttpRequest, object_id: str | None) -> bool:
        return bool(object_id and request.user.is_superuser)

    def typed_to_delete(self, obj: User) -> str:
        return obj.email if obj.last_login else ""

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Count accounts and signed-in browsers. Django would count the rows of each table."""
        found, _counts, lacking, protected = super().get_deleted_objects(objs, request)
        browsers = Session.unexpired().filter(user__in=objs).count()
        return found, {_("accounts"): len(objs), _("signed-in browsers"): browsers}, lacking, protected

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        delete_accounts(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        delete_accounts(request, *queryset)

    @admin.action(description=_("Switch off …"), permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> HttpResponse | None:
        people = queryset if request.user.is_superuser else queryset.filter(is_staff=False, is_superuser=False)
        return self.act_on_many(
            request,
            queryset,
            people.filter(is_active=True),
            lambda _answers: deactivate_all(people),
            label=_("Switch off"),
            ends=_("Ends every sign-in and the access of applications, at once. Keeps the data."),
            done=ngettext_lazy(
                "%(count)d account is switched off, and signed out everywhere.",
                "%(count)d accounts are switched off, and signed out everywhere.",
                "count",
            ),
            permitted=people,
        )


def _memberships(person: User) -> dict[str, object]:
    return {
        "groups": list(person.groups.values_list("name", flat=True)),
        "permissions": list(person.user_permissions.values_list("codename", flat=True)),
    }
