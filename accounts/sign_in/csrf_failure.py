"""Show the page of a form again, with the typed values, if the CSRF check refused the form."""

from __future__ import annotations

from http import HTTPStatus

from allauth.core.context import request_context
from allauth.core.exceptions import ReauthenticationRequired
from django.contrib import messages
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import SimpleTemplateResponse
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.translation import gettext as _

from accounts.sign_in import reauthentication

# The pages of Django admin that have a view in `accounts`.
_ADMIN_PAGES = frozenset(
    f"admin:{name}"
    for name in ("login", "logout", "password_change", "accounts_user_changelist", "accounts_user_delete")
)


class _ByGet(WSGIRequest):
    """A GET request with the attributes of another request. What a view sets on it, middleware reads from the other."""

    def __init__(self, request: HttpRequest) -> None:
        self.__dict__ = request.__dict__

    @property
    def method(self) -> str:  # type: ignore[override]
        return "GET"


def stale_form(request: HttpRequest, why: str = "") -> HttpResponseBase | None:
    """Render the page of a form again if the CSRF check refused it. Return None for pages of other packages.

    The page keeps the typed values, except passwords. If another tab has signed the person in, the response redirects
    at once. A page that requires a recent sign-in redirects to the page that asks for a proof of identity. The page
    has the message `why`, by default that the form was out of date. The message does not begin a session for an
    anonymous visitor.
    """
    match = request.resolver_match
    if match is None or not _is_ours(match, request.path_info):
        return None
    request.POST.keys()  # parse the form while the method is POST; a refused form raises an exception here
    messages.warning(request, why or _("This page was open for too long or in too many windows. Please try again."))
    again = _ByGet(request)
    try:
        with request_context(again):  # allauth's adapters read the request from this context
            response: HttpResponseBase = match.func(again, *match.args, **match.kwargs)
            if isinstance(response, SimpleTemplateResponse):
                response.render()
    except ReauthenticationRequired:
        response = reauthentication.ask_for_proof(request)
    finally:
        if not request.session.session_key:
            list(messages.get_messages(request))  # remove the messages, so that no session is stored
    if response.status_code == HTTPStatus.OK:
        response.status_code = HTTPStatus.FORBIDDEN
    return response if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED else redirect("profile")


def _is_ours(match: ResolverMatch, path: str) -> bool:
    """Return whether the page belongs to `accounts.urls` or is one of _ADMIN_PAGES."""
    if match.view_name in _ADMIN_PAGES:
        return True
    try:
        resolve(path, urlconf="accounts.urls")
    except Resolver404:
        return False
    return True
