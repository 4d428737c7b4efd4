"""The form of the profile: the nickname, the picture and the visible part of the picture."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.errors import FormError, refuse
from accounts.form_fields import NicknameField
from accounts.models import User
from accounts.pictures import current_picture, reencoder_runner

MAX_ZOOM_PERCENT = 400
MIDDLE_PERCENT = 50
SLIDERS = ("zoom", "across", "down")


def _slider(label: Any, initial: int, least: int, most: int, attrs: dict[str, Any]) -> forms.IntegerField:
    """Return a slider with a whole number, in percent. Without a script, no slider is visible or sent."""
    widget = forms.NumberInput({"type": "range", "autocomplete": "off", "data-initial": initial, **attrs})
    return forms.IntegerField(
        label=label, required=False, initial=initial, min_value=least, max_value=most, widget=widget
    )


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    """Changes the nickname and the picture."""

    nickname = NicknameField(
        _("The name that applications show. Without one they show a name that says nothing about you."),
        {"autocomplete": "nickname"},
    )
    picture = forms.FileField(
        label=_("Picture"),
        required=False,
        help_text=_("JPEG, PNG, GIF or WebP, at most 25 MB. The middle of it is shown, round."),
        widget=forms.FileInput(attrs={"accept": ",".join(reencoder_runner.ACCEPTED_TYPES)}),
    )
    zoom = _slider(_("Zoom"), 100, 100, MAX_ZOOM_PERCENT, {"data-crop": "zoom"})
    # The left end of the slider means the left side of the picture, even on right-to-left pages.
    across = _slider(_("From left to right"), MIDDLE_PERCENT, 0, 100, {"data-crop": "across", "dir": "ltr"})
    down = _slider(_("From top to bottom"), MIDDLE_PERCENT, 0, 100, {"data-crop": "down"})

    class Meta:
        model = User
        fields = ("nickname",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nickname_before = self.instance.nickname

    def sliders(self) -> list[forms.BoundField]:
        return [self[name] for name in SLIDERS]

    def clean(self) -> dict[str, Any]:
        """Replace the uploaded file with the re-encoded picture."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and (upload := cleaned["picture"]):
            shares = [
                (field.initial if (value := cleaned[field.name]) is None else value) / 100 for field in self.sliders()
            ]
            crop = reencoder_runner.Crop(*shares)
            try:
                cleaned["picture"] = reencoder_runner.reencode(upload, self.instance, crop)
            except FormError as error:
                refuse(error.fault, person=self.instance.pk)
                self.add_error("picture", error)
        return cleaned

    def save(self, commit: bool = True) -> User:
        person: User = super().save(commit=False)
        # If the post has no nickname, the nickname does not change.
        if "nickname" in self.data and person.nickname != self.nickname_before:
            person.change_profile(nickname=person.nickname)
        if self.cleaned_data["picture"]:
            current_picture.set_picture(person, self.cleaned_data["picture"])
        return person
