"""Responses that ask a person to try again later: forms and pages with a status and `Retry-After`."""

from __future__ import annotations

from itertools import chain
from typing import cast
from uuid import UUID

from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from accounts.errors import AccountFault, FormError, duration, refuse

RETRY_AFTER_SECONDS = 60


class RetryLaterMixin:
    """Sets the status and `Retry-After` of the response if an error of the form says when to try again."""

    def form_invalid(self, form: Form) -> HttpResponse:
        response = cast(HttpResponse, super().form_invalid(form))  # type: ignore[misc]
        for error in chain.from_iterable(form.errors.as_data().values()):
            if isinstance(error, FormError) and error.params and "seconds" in error.params:
                response.status_code = error.fault.status
                response["Retry-After"] = str(error.params["seconds"])
        return response


def too_many_requests(
    request: HttpRequest,
    seconds: int = RETRY_AFTER_SECONDS,
    fault: AccountFault = AccountFault.REQUESTS_LIMITED,
    *,
    cause: str = "",
    person: UUID | None = None,
) -> HttpResponse:
    """Report a refusal and return an error page. D21.

    Use this function for a limit whose error no form shows, such as the limits of allauth.
    """
    refuse(fault, cause=cause, person=person)
    response = render(
        request,
        "error.html",
        {
            "status": fault.status,
            "title": _("Too many requests"),
            "message": _(fault.problem),
            "advice": _(fault.fix) % {"when": duration(seconds)},
        },
        status=fault.status,
    )
    response["Retry-After"] = str(seconds)
    return response
