"""Applications in Django admin. A client secret is shown once; codes and tokens are never shown (D15)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core import signing
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Field, QuerySet, URLField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.admin_site import ModelAdmin
from accounts.media import NotStored
from accounts.pictures import reencode
from oauth_bridge.applications import logos
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.storage import applications, client_secrets

SECRET_COOKIE = "new_client_secret"
SECRET_COOKIE_SECONDS = 120
# In pages from right to left as well: otherwise the slash at the end of an address is shown before it.
ADDRESS = {"dir": "ltr"}


def _address(label: Any, help_text: Any) -> forms.URLField:
    """The optional address of a page; one without a scheme is https."""
    widget = forms.URLInput(attrs={"class": "vLargeTextField", **ADDRESS})
    return forms.URLField(label=label, help_text=help_text, required=False, assume_scheme="https", widget=widget)


def _https(field: Field[Any, Any], **options: Any) -> forms.Field | None:
    """The form field of a model's field. Django makes one even of a read-only field, and warns without a scheme."""
    if isinstance(field, URLField):
        options["assume_scheme"] = "https"
    return field.formfield(**options)


class ApplicationForm(forms.ModelForm):  # type: ignore[type-arg]
    homepage = _address(gettext_lazy("Homepage"), gettext_lazy("People see its host on the sign-in and consent pages."))
    policy_uri = _address(gettext_lazy("Privacy policy"), gettext_lazy("The consent page links to it."))
    tos_uri = _address(gettext_lazy("Terms"), gettext_lazy("The consent page links to them."))
    initiate_login_uri = _address(
        gettext_lazy("Sign-in address"),
        gettext_lazy(
            "Where the application starts a new sign-in: https, or http on this machine. A page of this service that "
            "stayed open after a sign-in leads there, with the button “Sign in again”."
        ),
    )
    new_logo = forms.FileField(
        label=gettext_lazy("Logo"),
        required=False,
        widget=forms.FileInput(attrs={"accept": "image/png,image/jpeg,image/webp,image/gif"}),
        help_text=gettext_lazy("PNG, JPEG, WebP or GIF. It is cut to a square and stored as PNG."),
    )

    class Meta:
        model = Application
        formfield_callback = _https
        fields = [
            *("name", "operator", "homepage", "policy_uri", "tos_uri"),
            *("redirect_uris", "initiate_login_uri", "client_type", "is_trusted", "is_enabled"),
        ]
        widgets = {"redirect_uris": AdminTextareaWidget(attrs={"rows": 4, **ADDRESS})}
        help_texts = {
            "operator": gettext_lazy("The organisation or person that runs it. People see this on the consent page."),
            "redirect_uris": gettext_lazy(
                "One a line, each exactly as the application sends it: https, or http on this machine "
                "(localhost, 127.0.0.1, [::1]), or a scheme like com.example.app:/callback."
            ),
            "client_type": gettext_lazy("Public: it runs where no secret can be kept, and must use PKCE."),
            "is_trusted": gettext_lazy(
                "People are signed in to it without being asked. For your own only. "
                "The addresses of a trusted application are changed by those who may set this."
            ),
            "is_enabled": gettext_lazy("Switched off, its codes and access tokens are refused at once."),
        }

    def clean_new_logo(self) -> bytes | None:
        upload = self.cleaned_data["new_logo"]
        return reencode(upload) if upload else None


class RotationForm(forms.Form):
    """The time for which the older secrets keep working. Ending them at once needs a confirmation."""

    overlap = forms.TypedChoiceField(
        coerce=lambda hours: timedelta(hours=int(hours)),
        choices=[(hours, hours) for hours in ("1", "24", "168", "0")],  # the page names them
        error_messages={"required": gettext_lazy("Choose how long the older secrets go on working.")},
    )
    confirmed = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("overlap") == client_secrets.REVOKE_NOW and not self.cleaned_data["confirmed"]:
            raise ValidationError(_("Confirm that the older secrets are to end at once."))
        return self.cleaned_data


@admin.register(Application)
class ApplicationAdmin(ModelAdmin):
    form = ApplicationForm
    view_on_site = False
    list_display = ["name", "client_id", "host", "client_type", "is_trusted", "is_enabled", "created"]
    list_filter = ["is_enabled", "is_trusted", "client_type"]
    search_fields = ["name", "client_id", "homepage", "redirect_uris"]
    actions = ["disable", "enable"]
    readonly_fields = ["client_id", "created", "updated"]
    saved_elsewhere = frozenset({"is_enabled"})
    saved_with_form = frozenset({"logo", "updated"})
    fieldsets = [
        (
            gettext_lazy("What people see"),
            {"fields": ["name", "new_logo", "operator", "homepage", "policy_uri", "tos_uri"]},
        ),
        (gettext_lazy("Addresses of the sign-in"), {"fields": ["redirect_uris", "initiate_login_uri"]}),
        (gettext_lazy("What it may do"), {"fields": ["client_type", "is_trusted", "is_enabled"]}),
        (gettext_lazy("Registration"), {"fields": ["client_id", "created", "updated"]}),
    ]

    @admin.display(description=gettext_lazy("host of the homepage"))
    def host(self, application: Application) -> str:
        return application.homepage_host

    # Permissions -------------------------------------------------------------------------------------------------

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("oauth_bridge.rotate_applicationsecret")

    def has_trust_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("oauth_bridge.trust_application")

    def get_readonly_fields(self, request: HttpRequest, obj: Application | None = None) -> list[str]:
        """The fields that this administrator can't change.

        The client type is fixed at registration, because it decides whether there is a secret. The callback addresses
        of a trusted application need the permission to trust, because nobody is asked before a code is sent there; so
        does the one where a new sign-in begins.
        """
        fixed = ["client_id", "created", "updated"]
        if obj:
            fixed.append("client_type")
        if not self.has_trust_permission(request):
            fixed.append("is_trusted")
            if obj and obj.is_trusted:
                fixed += ["redirect_uris", "initiate_login_uri"]
        return fixed

    # Registering and changing ------------------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Application | None = None) -> Any:
        return self.fieldsets if obj else self.fieldsets[:-1]

    def save_model(self, request: HttpRequest, obj: Application, form: Any, change: bool) -> None:
        if picture := form.cleaned_data["new_logo"]:
            try:
                logos.store(obj, picture)
            except NotStored:
                text = _(
                    "The logo could not be saved because of a fault on our side. Try again later. The rest is saved."
                )
                self.message_user(request, text, messages.ERROR)
        if change:
            applications.set_enabled(obj, obj.is_enabled)
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[URLPattern]:
        secret = path(
            "<int:pk>/secret/", self.admin_site.admin_view(self.secret_view), name="oauth_bridge_application_secret"
        )
        return [secret, *super().get_urls()]

    def response_add(
        self, request: HttpRequest, obj: Application, post_url_continue: str | None = None
    ) -> HttpResponse:
        if obj.is_public:
            self.message_user(request, _("Its client ID is %(client_id)s.") % {"client_id": obj.client_id})
            return super().response_add(request, obj, post_url_continue)
        return self._to_secret_page(request, obj, client_secrets.rotate(obj).secret)

    # Secrets -----------------------------------------------------------------------------------------------------

    def secret_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show a new secret once. With the permission to rotate, list the other secrets and create one on a post.

        The new secret is in a signed cookie for this path only. The response that creates the secret sets the cookie,
        and the response that shows it deletes the cookie, so the service never stores the secret (D15).
        """
        new_secret, may_rotate = _secret_of(request, pk), self.has_rotate_permission(request)
        if not may_rotate and (request.method == "POST" or not new_secret):
            raise PermissionDenied
        application = self.get_object(request, str(pk))
        if application is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, str(pk))  # type: ignore[attr-defined,no-any-return]
        if application.is_public:
            self.message_user(request, _("This application is public: it has no secret."), messages.WARNING)
            return HttpResponseRedirect(reverse("admin:oauth_bridge_application_change", args=[pk]))
        form = RotationForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and (secret := self._rotate(request, application, form)):
            return self._to_secret_page(request, application, secret)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Client secrets"),
            "opts": self.opts,
            "application": application,
            "form": form,
            "client_secret": new_secret,
            "may_rotate": may_rotate,
            "may_view": self.has_view_or_change_permission(request, application),
        }
        response = TemplateResponse(request, "admin/oauth_bridge/application/secret.html", context)
        response.delete_cookie(SECRET_COOKIE, path=request.path)
        return response

    def _rotate(self, request: HttpRequest, application: Application, form: RotationForm) -> str:
        """The new secret; an empty string when the form is invalid, with the error in the form."""
        if not form.is_valid():
            return ""
        overlap = form.cleaned_data["overlap"]
        try:
            secret = client_secrets.rotate(application, overlap).secret
        except client_secrets.TooManySecrets:
            form.add_error(None, _("Too many secrets still work. Wait until one has expired, or end them all at once."))
            return ""
        text = _("New client secret; the older ones ended at once.")
        if overlap:
            hours = overlap // timedelta(hours=1)
            text = ngettext(
                "New client secret; the older ones work for %(hours)d hour at most.",
                "New client secret; the older ones work for %(hours)d hours at most.",
                hours,
            ) % {"hours": hours}
        self.log_change(request, application, text)
        return secret

    def _to_secret_page(self, request: HttpRequest, application: Application, secret: str) -> HttpResponse:
        url = reverse("admin:oauth_bridge_application_secret", args=[application.pk])
        response = HttpResponseRedirect(url, status=303)
        response.set_signed_cookie(
            SECRET_COOKIE,
            secret,
            salt=_salt(request, application.pk),
            max_age=SECRET_COOKIE_SECONDS,
            path=url,
            secure=settings.IS_HTTPS,
            httponly=True,
            samesite="Strict",
        )
        return response

    # Enabling, disabling, deleting -------------------------------------------------------------------------------

    @admin.action(description=gettext_lazy("Switch off"), permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Application]) -> None:
        self._set_enabled(request, chosen, False)

    @admin.action(description=gettext_lazy("Switch on"), permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Application]) -> None:
        self._set_enabled(request, chosen, True)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The rows that are deleted with the applications, as counts: one may have millions of consents."""
        counts = {
            gettext_lazy("applications"): len(objs),
            gettext_lazy("client secrets"): ApplicationSecret.objects.filter(application__in=objs).count(),
            gettext_lazy("consents"): Consent.objects.filter(application__in=objs).count(),
        }
        return [str(application) for application in objs], counts, set(), []

    def _set_enabled(self, request: HttpRequest, chosen: QuerySet[Application], is_enabled: bool) -> None:
        for application in chosen:
            applications.set_enabled(application, is_enabled)
            self.log_change(request, application, _("Switched on.") if is_enabled else _("Switched off."))
        text = ngettext("%(count)d application changed.", "%(count)d applications changed.", len(chosen))
        self.message_user(request, text % {"count": len(chosen)}, messages.SUCCESS)


def _salt(request: HttpRequest, pk: int) -> str:
    """Bind the cookie to application and person: another person in the same browser is not shown the secret."""
    return f"oauth_bridge.admin.secret.{pk}.{request.user.pk}"


def _secret_of(request: HttpRequest, pk: int) -> str | None:
    try:
        return request.get_signed_cookie(SECRET_COOKIE, salt=_salt(request, pk), max_age=SECRET_COOKIE_SECONDS)
    except (KeyError, signing.BadSignature):
        return None
