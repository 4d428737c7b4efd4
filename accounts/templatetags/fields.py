"""Template filters for the fields of forms and their errors."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.contrib.admin.helpers import AdminReadonlyField
from django.contrib.auth.models import Permission
from django.db.models import Manager
from django.forms import BaseForm
from django.forms.boundfield import BoundField
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from accounts.templatetags.times import comma, moment

register = template.Library()


@register.filter
def needs_summary(form: BaseForm) -> bool:
    """Return whether several fields are wrong, or an error belongs to no visible field."""
    return bool(form.errors) and _only_wrong_field(form) is None


@register.filter
def control(field: BoundField) -> SafeString:
    return field.as_widget(attrs={"autofocus": True} if _only_wrong_field(field.form) == field.name else None)


@register.filter
def contents(field: AdminReadonlyField) -> str:
    """Return the text of a read-only field in the active language: Django shows some types in English."""
    value = getattr(field.form.instance, field.field["name"], None)
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Manager):
        return comma().join(_(each.name) if isinstance(each, Permission) else str(each) for each in value.all()) or "–"
    return field.contents()


def _only_wrong_field(form: BaseForm) -> str | None:
    names = [name for name in form.errors if name in form.fields and not form[name].is_hidden]
    return names[0] if len(names) == len(form.errors) == 1 else None
