"""Make a client secret, and show it once, with the other settings that an application needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core import signing
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import User
from config.infrastructure import paths
from config.infrastructure.texts import refuse_control_characters
from oauth_bridge.administration import rights, shown
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application
from oauth_bridge.models.secrets import NAME_MAX_LENGTH

COOKIE, COOKIE_SECONDS = "new_client_secret", 120


class RotationForm(forms.Form):
    overlap = forms.TypedChoiceField(
        label=gettext_lazy("How long older secrets still work"),
        coerce=lambda hours: timedelta(hours=int(hours)),
        choices=[
            ("1", gettext_lazy("1 hour")),
            ("24", gettext_lazy("24 hours")),
            ("168", gettext_lazy("7 days")),
        ],
        initial="24",
        widget=forms.RadioSelect,
        error_messages={"required": gettext_lazy("Choose how long the older secrets go on working.")},
    )
    name = forms.CharField(
        label=gettext_lazy("A note, such as where it is used"),
        max_length=NAME_MAX_LENGTH,
        required=False,
        validators=[refuse_control_characters],
    )
    confirmed = forms.BooleanField(
        label=gettext_lazy("End all at once: nobody can sign in until the application has the new secret"),
        required=False,
        help_text=gettext_lazy(
            "Make a new secret, and end every older one now. Whoever has access keeps it: if a secret has leaked, "
            "choose “It leaked” beside it."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.initial["has_secret"]:
            del self.fields["overlap"], self.fields["confirmed"]

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("confirmed"):
            self.cleaned_data["overlap"] = secret_rotation.REVOKE_NOW
        return self.cleaned_data


def rotate(
    request: HttpRequest,
    application: Application,
    overlap: timedelta = secret_rotation.DEFAULT_OVERLAP,
    name: str = "",
) -> HttpResponseBase:
    """Make a client secret with the note `name`. Older secrets work for at most `overlap`. Raises TooManySecrets.

    Redirect to `new_secret`. A signed cookie carries the secret there, because the database has only a digest.
    """
    secret = secret_rotation.rotate(application, overlap, name=name, maker=cast(User, request.user)).secret
    url = shown.page("application_secret", application.pk)
    response = HttpResponseRedirect(url, status=303)
    response.set_signed_cookie(
        COOKIE,
        secret,
        salt=_salt(request, application.pk),
        max_age=COOKIE_SECONDS,
        path=url,
        secure=settings.IS_HTTPS,
        httponly=True,
        samesite="Strict",
    )
    return response


def new_secret(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Show the secret from the cookie, and delete the cookie. Without a valid cookie, redirect to the application."""
    try:
        secret = request.get_signed_cookie(COOKIE, salt=_salt(request, pk), max_age=COOKIE_SECONDS)
    except (KeyError, signing.BadSignature):
        return redirect("admin:application", rights.find_application(request, pk).pk)
    application = get_object_or_404(Application, pk=pk)
    context = {
        **admin.site.each_context(request),
        "title": _("Client secrets"),
        "application": application,
        "client_secret": secret,
        "product_settings": product_settings(application),
        "may_view": rights.may(request, rights.VIEW, application),
    }
    response = TemplateResponse(request, "administration/secret.html", context)
    response.delete_cookie(COOKIE, path=request.path)
    return response


def _salt(request: HttpRequest, pk: int) -> str:
    """The salt of the cookie's signature. It contains the user ID, so no other user of the browser sees the secret."""
    return f"oauth_bridge.admin.secret.{pk}.{request.user.pk}"


def product_settings(found: Application) -> list[tuple[str, list[tuple[str, str]]]]:
    """What to enter in a ready-made product besides client ID and secret: headings, each with (label, value) pairs."""
    discovered = [
        (_("Issuer"), settings.BASE_URL),
        (_("Discovery address"), f"{settings.BASE_URL}{paths.OPENID_CONFIGURATION}"),
        (_("Scope"), "openid profile email"),
    ]
    others = [
        (_("Authorization"), f"{settings.AUTH_URL}{paths.AUTHORIZE}"),
        (_("Token"), f"{settings.BASE_URL}{paths.TOKEN}"),
        (_("User info"), f"{settings.BASE_URL}{paths.USERINFO}"),
        (_("Keys (JWKS)"), f"{settings.BASE_URL}{paths.JWKS}"),
        (_("Signature of ID tokens"), found.id_token_alg),
    ]
    return [(_("OpenID Connect"), discovered), (_("Without discovery, or for plain OAuth 2.0"), others)]
