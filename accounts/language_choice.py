"""Store the language that a person chooses, in the person's row and in a cookie that config.http.languages reads."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import translation
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from accounts import return_path
from accounts.models import User
from config.infrastructure.paths import set_cookie

COOKIE_AGE_SECONDS = 365 * 24 * 3600


# This view checks no CSRF token. Error pages also contain the form for the language, but without a session or the
# database they have no token. A forged post changes only the language of pages, as a link with `ui_locales` does. The
# session cookie is SameSite, so a forged post changes no account.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Store the posted language for this browser and the person, and redirect back to the page with the form."""
    if request.method != "POST":  # somebody opened the address of the form
        return redirect("profile")
    there = request.POST.get(REDIRECT_FIELD_NAME, "")
    response = HttpResponseRedirect(there if return_path.is_own_path(there) else reverse("profile"), status=303)
    language = request.POST.get("language", "")
    if language in dict(settings.LANGUAGES):
        set_cookie(response, settings.LANGUAGE_COOKIE_NAME, language, COOKIE_AGE_SECONDS)
        response.delete_cookie(settings.UI_LOCALES_COOKIE_NAME, samesite="Lax")
        with suppress(Error):  # the cookie sets the language of pages even without the database
            _store(request, language)
    return response


def _store(request: HttpRequest, language: str) -> None:
    if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
        User.objects.filter(pk=request.user.pk).update(language=language)


def learn(person: User) -> None:
    """Store the language of the current request for a person whose language is not known."""
    language = translation.get_language()
    if not person.language and language:
        person.language = language
        User.objects.filter(pk=person.pk, language="").update(language=language)
