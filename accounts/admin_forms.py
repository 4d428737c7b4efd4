"""The forms that add and change people's accounts in Django admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts import administrators
from accounts.form_fields import EmailField, NicknameField
from accounts.models import User

PRIVILEGES = ("is_staff", "is_superuser", "user_permissions")


class NewPersonForm(BaseUserCreationForm):  # type: ignore[type-arg]
    email = EmailField("off")
    nickname = NicknameField()
    is_verified = forms.BooleanField(
        label=_("The address is confirmed"),
        required=False,
        initial=True,
        help_text=_("Untick to have the person confirm it with a code by mail at the first sign-in."),
    )

    class Meta:
        model = User
        fields = ("email", "nickname")


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    nickname = NicknameField()

    class Meta:
        model = User
        fields = ("nickname", "is_active", "groups", *PRIVILEGES)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Preselect the offered groups that contain the person. `clean_groups` keeps the person's other groups."""
        super().__init__(*args, **kwargs)
        if "groups" in self.fields:
            offered = self.fields["groups"].queryset  # type: ignore[attr-defined]
            self.initial["groups"] = list(self.instance.groups.filter(pk__in=offered))

    def clean_groups(self) -> list[Group]:
        offered = self.fields["groups"].queryset  # type: ignore[attr-defined]
        return [*self.cleaned_data["groups"], *self.instance.groups.exclude(pk__in=offered)]

    def clean(self) -> dict[str, Any] | None:
        """Refuse to demote or deactivate the last administrator. The page calls this method in its transaction."""
        if any(self.cleaned_data.get(name) is False for name in administrators.REQUIRED):
            try:
                administrators.keep_one([self.instance.pk])
            except administrators.LastAdministrator:
                raise ValidationError(administrators.ADVICE, code="last_administrator") from None
        return super().clean()


class PermissionField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: Permission) -> str:
        """Return only the translated name of the permission: the page's select boxes cut off longer labels."""
        return gettext(obj.name)
