"""The form of an application in Django admin."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import TextField, URLField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from accounts.pictures.reencoder_runner import ACCEPTED_TYPES, reencode
from config.infrastructure.texts import refuse_control_characters
from oauth_bridge.applications import look_alikes
from oauth_bridge.applications.fields import BY_NAME, FIELDS
from oauth_bridge.callback_addresses.registration import split_lines, without_loopback_port
from oauth_bridge.credentials import code_history
from oauth_bridge.models import Application

# Addresses run from left to right on all pages. Without this attribute, a page in a right-to-left language would show
# the final slash of an address first.
ADDRESS = {"dir": "ltr"}


class PageAddress(forms.URLField):
    def __init__(self, **options: Any) -> None:
        super().__init__(assume_scheme="https", **options)


class AddressLines(forms.CharField):
    """A form field with one address per line. `has_changed` ignores empty lines and white space around a line."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return split_lines(initial or "") != split_lines(data or "")


GROUPS = {"is_restricted", "groups", "new_group"}
PAGES = [each.name for each in Application._meta.fields if isinstance(each, URLField)]
LINES = [each.name for each in Application._meta.fields if isinstance(each, TextField)]


class ApplicationForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form for an application on administration pages. `management.registration` extends it for the commands."""

    # The administrator, and the applications that the administrator may see. `ApplicationAdmin.get_form` sets both.
    person: User
    seen = Application.objects.none()

    client_type = forms.ChoiceField(
        label=gettext_lazy("Where does it run?"),
        choices=[
            ("confidential", gettext_lazy("On a server: it can keep a secret")),
            ("public", gettext_lazy("In a browser or on a device: no secret, but a proof for each sign-in (PKCE)")),
        ],
        initial="confidential",
        widget=forms.RadioSelect,
    )
    remove_used = forms.BooleanField(label=gettext_lazy("Remove addresses although they are used"), required=False)
    new_logo = forms.FileField(
        label=gettext_lazy("Logo"),
        required=False,
        widget=forms.FileInput(attrs={"accept": ",".join(ACCEPTED_TYPES)}),
        help_text=gettext_lazy("PNG, JPEG, WebP or GIF. It is cut to a square and stored as PNG."),
    )
    remove_logo = forms.BooleanField(label=gettext_lazy("Remove the logo"), required=False)
    new_group = forms.CharField(
        label=gettext_lazy("A new group"),
        required=False,
        max_length=Group._meta.get_field("name").max_length,
        validators=[refuse_control_characters],
        help_text=gettext_lazy(
            "Its name. Only its members may use the application then. Add them on the group’s page."
        ),
    )

    # Scripts that are older than this field do not send it. Without this field, the application keeps the stored value,
    # or gets the default of the column.
    id_token_alg = forms.ChoiceField(
        label=gettext_lazy("Signature of ID tokens"),
        choices=Application.ID_TOKEN_ALGS,
        required=False,
        help_text=BY_NAME["id_token_alg"].page_help,
    )

    class Meta:
        model = Application
        # Acts change the other columns.
        fields = [field.column for field in FIELDS if field.name not in ("trusted", "enabled")]
        field_classes = {**dict.fromkeys(PAGES, PageAddress), **dict.fromkeys(LINES, AddressLines)}
        help_texts = {field.column: field.page_help for field in FIELDS if field.page_help}
        widgets = {
            **{name: forms.URLInput(attrs={"class": "vLargeTextField", **ADDRESS}) for name in PAGES},
            **{name: forms.Textarea(attrs={"rows": 4, **ADDRESS}) for name in LINES},
            "groups": forms.CheckboxSelectMultiple,
        }

    def clean_id_token_alg(self) -> str:
        return str(self.cleaned_data["id_token_alg"] or self.instance.id_token_alg)

    def clean(self) -> dict[str, Any]:
        """Check the name, removed addresses and the groups. Each check runs only if its field has changed."""
        if "name" in self.cleaned_data and "name" in self.changed_data:
            self.check_name()
        if self.instance.pk and "redirect_uris" in self.cleaned_data and "redirect_uris" in self.changed_data:
            self._check_removed()
        if GROUPS & set(self.changed_data):
            self.check_groups()
        return self.cleaned_data

    def check_name(self) -> None:
        alike = look_alikes.find(self.cleaned_data["name"], self.instance.pk or 0)
        try:
            look_alikes.refuse(alike, is_trusted=self.instance.is_trusted, seen=self.seen)
        except ValidationError as problem:
            self.add_error("name", problem)

    def _check_removed(self) -> None:
        if self.cleaned_data.get("remove_used"):
            return
        kept = split_lines(self.cleaned_data["redirect_uris"])
        used: Counter[str] = Counter()
        for sent, sign_ins in code_history.sign_ins_by_callback(self.instance).items():
            used[without_loopback_port(sent) if self.instance.has_own_port(sent) else sent] += sign_ins
        for address in split_lines(self.initial["redirect_uris"]):
            if address not in kept and used[address]:
                text = ngettext(
                    "%(count)d sign-in in the last 30 days used %(address)s, which is to be removed. "
                    "To remove it all the same, tick the box below.",
                    "%(count)d sign-ins in the last 30 days used %(address)s, which is to be removed. "
                    "To remove it all the same, tick the box below.",
                    used[address],
                )
                self.add_error("redirect_uris", text % {"count": used[address], "address": address})

    def check_groups(self) -> None:
        """Unless `new_group` is given, refuse groups without `is_restricted`, and `is_restricted` without groups."""
        is_restricted, groups = self.cleaned_data.get("is_restricted"), self.cleaned_data.get("groups")
        if is_restricted and groups is not None and not (groups or self.cleaned_data.get("new_group")):
            self.add_error("groups", _("Choose at least one group, or let everybody use it."))
        if groups and not (is_restricted or self.cleaned_data.get("new_group")):
            self.add_error("is_restricted", _("Tick this, or choose no group: then everybody may use it."))

    def clean_new_logo(self) -> bytes | None:
        upload = self.cleaned_data["new_logo"]
        return reencode(upload, self.person) if upload else None
