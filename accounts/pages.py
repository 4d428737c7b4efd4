"""The template context of account pages, and responses that ask a person to try again later."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast
from uuid import UUID

from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.generic.base import ContextMixin

from accounts.errors import AccountFault, FormError, duration, refuse
from accounts.models import User
from accounts.pictures import current_picture
from config.infrastructure.texts import first_grapheme


class AccountPageMixin(ContextMixin):
    request: HttpRequest
    section = ""  # the route of the entry that the sub-navigation marks as current; "" for the page itself

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"person": person_context(cast(User, self.request.user)), "section": self.section}


def person_context(person: User) -> dict[str, str]:
    return {
        "display_name": person.display_name,
        "initial": first_grapheme(person.display_name).upper(),
        "email": person.email,
        "avatar_url": current_picture.avatar_url(person),
    }


class RetryLaterMixin:
    """Sets the response's status and `Retry-After` if a form error says when to try again."""

    def form_invalid(self, form: Form) -> HttpResponse:
        response = cast(HttpResponse, super().form_invalid(form))  # type: ignore[misc]
        for error in chain.from_iterable(form.errors.as_data().values()):
            if isinstance(error, FormError) and error.params and "seconds" in error.params:
                response.status_code = error.fault.status
                response["Retry-After"] = str(error.params["seconds"])
        return response


def too_many_requests(
    request: HttpRequest,
    seconds: int = 60,
    fault: AccountFault = AccountFault.REQUESTS_LIMITED,
    *,
    cause: str = "",
    person: UUID | None = None,
) -> HttpResponse:
    """Report a refusal, and return an error page that says to try again after `seconds`."""
    refuse(fault, cause=cause, person=person)
    context = {
        "status": fault.status,
        "title": _("Too many requests"),
        "message": _(fault.problem),
        "advice": _(fault.fix) % {"when": duration(seconds)},
    }
    response = render(request, "error.html", context, status=fault.status)
    response["Retry-After"] = str(seconds)
    return response
