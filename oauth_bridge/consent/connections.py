"""The page on which a person sees and ends remembered consents. D7."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from oauth_bridge.applications.logos import logo_url
from oauth_bridge.models import Consent
from oauth_bridge.storage import codes, tokens

if TYPE_CHECKING:
    from accounts.models import User


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def applications(request: HttpRequest) -> HttpResponse:
    """List the remembered consents, newest first. A post ends one, and the application's codes and tokens with it."""
    person = cast("User", request.user)
    remembered = Consent.objects.filter(
        user=person, expires_at__gt=timezone.now(), person_version=person.credentials_version
    ).select_related("application")
    if request.method == "POST":
        chosen = remembered.filter(pk=_parse_id(request.POST.get("consent", ""))).first()
        if chosen:
            codes.discard_all(chosen.user, chosen.application)
            tokens.revoke_all(chosen.user, chosen.application)
            chosen.delete()
            messages.success(request, _("%(name)s will ask again.") % {"name": chosen.application.name})
        return HttpResponseRedirect(request.path, status=303)
    rows = [
        {
            "consent": consent.pk,
            "name": consent.application.name,
            "host": consent.application.homepage_host,
            "logo": logo_url(consent.application),
            "given_at": consent.given_at,
            "expires_at": consent.expires_at,
        }
        for consent in remembered.order_by("-given_at")
    ]
    return render(request, "oauth_bridge/applications.html", {"applications": rows})


def _parse_id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
