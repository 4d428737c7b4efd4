"""The page of a group: its members, forms to add or remove many members, and the restricted applications it opens."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Group
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from accounts.admin_site import MOST_AT_ONCE, MOST_NAMED, ModelAdmin
from accounts.email_addresses import looked_up_email
from accounts.models import User
from accounts.pages import person_context
from accounts.rights import change_members
from accounts.sign_in.reauthentication import proof_first
from accounts.templatetags.times import comma
from oauth_bridge.administration import person, rights, shown
from oauth_bridge.administration.rights import PEOPLE, VIEW

LISTED = 30  # members or applications


class AddressesForm(forms.Form):
    addresses = forms.CharField(
        label=gettext_lazy("E-mail addresses"),
        max_length=60_000,
        widget=forms.Textarea(attrs={"rows": 4, "dir": "ltr", "spellcheck": "false"}),
        help_text=gettext_lazy("Of people who have an account. Any number, on lines or between commas."),
    )

    def clean_addresses(self) -> list[str]:
        """Return each address once. In `Ada Lovelace <ada@example.org>`, the address is the part in brackets."""
        found = []
        for line in self.cleaned_data["addresses"].translate({ord(each): "," for each in ";\n\r"}).split(","):
            _name, bracket, rest = line.partition("<")
            found += (rest.partition(">")[0] if bracket else line).split()
        if len(found) > MOST_AT_ONCE:
            text = _("These are more than %(count)d. Add them in parts.")
            raise ValidationError(text % {"count": MOST_AT_ONCE})
        return list(dict.fromkeys(found))


def group(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Show the page of a group. POST adds people by their addresses, or removes the ticked people after a confirmation.

    If the group gives permissions, administrators who may change its members must prove their identity first.
    """
    if not admin.site.get_model_admin(Group).has_view_permission(request):
        raise PermissionDenied
    with transaction.atomic():
        # The lock keeps the group from getting a permission until the transaction ends.
        groups = Group.objects.select_for_update() if request.method == "POST" else Group.objects
        found = get_object_or_404(groups, pk=pk)
        may_change = _may_change(request, found)
        if may_change and found.permissions.exists() and (question := proof_first(request)):
            return question
        if request.method != "POST":
            return _page(request, found, AddressesForm())
        if not may_change:
            raise PermissionDenied
        if request.POST.get("action") == "remove":
            return _remove(request, found) or redirect(request.get_full_path())
        form = AddressesForm(request.POST)
        if form.is_valid():
            form = _add(request, found, form.cleaned_data["addresses"])
        return _page(request, found, form) if form.errors else redirect(request.get_full_path())


def _may_change(request: HttpRequest, found: Group) -> bool:
    may_change_people = admin.site.get_model_admin(User).has_change_permission(request)
    may_change_group = admin.site.get_model_admin(Group).has_change_permission(request, found)
    return request.user.has_perm(PEOPLE) and may_change_people and may_change_group


def _page(request: HttpRequest, found: Group, form: AddressesForm) -> TemplateResponse:
    model_admin = admin.site.get_model_admin(Group)
    opened = rights.applications(request, VIEW).filter(is_restricted=True, groups=found).order_by("name")
    number = User.groups.through.objects.filter(group=found).count()  # without a join
    context = {
        **admin.site.each_context(request),
        "title": found.name,
        "group": found,
        "member_count": number,
        "form": form,
        "permissions": [_(each) for each in found.permissions.values_list("name", flat=True)],
        "applications": [shown.named(each) for each in opened[:LISTED]],
        "more_applications": max(0, opened.count() - LISTED),
        "may_see_applications": rights.may(request, VIEW),
        "may_see_people": request.user.has_perm(PEOPLE),
        "may_change": model_admin.has_change_permission(request, found),
        "may_delete": model_admin.has_delete_permission(request, found),
        "may_change_members": _may_change(request, found),
    }
    if request.user.has_perm(PEOPLE):
        context |= _members(request, found, number)
    return TemplateResponse(request, "administration/group.html", context)


def _members(request: HttpRequest, found: Group, number: int) -> dict[str, Any]:
    typed, after = request.GET.get("q", "").strip(), request.GET.get("after", "")
    people = User.objects.filter(person.matching(typed)) if typed.isprintable() else User.objects.none()
    rows = people.filter(groups=found, email__gt=after)
    members = list(rows.order_by("email")[: LISTED + 1])
    next_page = shown.page("group", found.pk, q=typed, after=members[LISTED - 1].email) if members[LISTED:] else ""
    return {
        "typed": typed,
        "members": [(each, person_context(each), person.may_change(request, each)) for each in members[:LISTED]],
        "is_searchable": bool(typed) or number > LISTED,
        "first_url": shown.page("group", found.pk, q=typed) if after else "",
        "next_url": next_page,
    }


def _add(request: HttpRequest, found: Group, typed: list[str]) -> AddressesForm:
    """Add the people with these addresses. Return a form with the unknown and refused addresses, and the reasons."""
    addresses = {each: looked_up_email(each) for each in typed}
    people = {each.email: each for each in User.objects.filter(email__in=filter(None, addresses.values()))}
    manageable = {email: each for email, each in people.items() if person.may_change(request, each)}
    members = set(found.user_set.filter(email__in=manageable).values_list("email", flat=True))
    added = [each for email, each in manageable.items() if email not in members]
    change_members(found, added, are_added=True)
    if manageable:
        rest = ngettext("%(count)d needed no change.", "%(count)d needed no change.", len(members))
        done = ngettext("%(count)d person is added.", "%(count)d people are added.", len(added)) % {"count": len(added)}
        messages.success(request, f"{done} {rest % {'count': len(members)} if members else ''}".strip())
    unknown = [each for each, address in addresses.items() if address not in people]
    refused = [each for each, address in addresses.items() if address in people and address not in manageable]
    form = AddressesForm({"addresses": "\n".join([*unknown, *refused])} if unknown or refused else None)
    if unknown:
        form.add_error("addresses", _("No account has: %(addresses)s.") % {"addresses": _named(unknown)})
    if refused:
        form.add_error("addresses", _("Only superusers may add: %(addresses)s.") % {"addresses": _named(refused)})
    return form


def _named(addresses: list[str]) -> str:
    return comma().join([*addresses[:MOST_NAMED], *(["…"] if addresses[MOST_NAMED:] else [])])


def _remove(request: HttpRequest, found: Group) -> HttpResponseBase | None:
    """Return a page that asks whether to remove the ticked people; None after the removal, or if nobody is ticked."""
    try:
        chosen = found.user_set.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
    except ValidationError as error:
        raise BadRequest from error
    removed = [each.pk for each in chosen if person.may_change(request, each)]
    if not removed:
        messages.warning(request, _("Nobody is chosen. Tick the people first."))
        return None
    model_admin = cast(ModelAdmin, admin.site.get_model_admin(Group))
    return model_admin.act_on_many(
        request,
        chosen,
        people := found.user_set.filter(pk__in=removed),
        lambda _answers: change_members(found, list(people), are_added=False),
        label=_("Remove from %(name)s") % {"name": found.name},
        ends=_("Applications that no other group opens to them refuse their codes and access tokens at once."),
        done=ngettext_lazy("%(count)d person is removed.", "%(count)d people are removed.", "count"),
    )
