"""Answers to a person who has to try again later: a form with its status and `Retry-After`, and a page."""

from __future__ import annotations

from http import HTTPStatus
from itertools import chain
from typing import cast

from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from accounts.forms import PasswordFormMixin
from accounts.hashing import HashingBusy

RETRY_AFTER_SECONDS = 60


class RetryLaterMixin:
    """Gives a form that was refused for now its status and `Retry-After`."""

    STATUSES = {"throttled": HTTPStatus.TOO_MANY_REQUESTS, "busy": HTTPStatus.SERVICE_UNAVAILABLE}

    def form_invalid(self, form: Form) -> HttpResponse:
        response = cast(HttpResponse, super().form_invalid(form))  # type: ignore[misc]
        for error in chain.from_iterable(form.errors.as_data().values()):
            if error.code in self.STATUSES:
                response.status_code = self.STATUSES[error.code]
                response["Retry-After"] = str((error.params or {})["seconds"])
        return response


class NewPasswordMixin(RetryLaterMixin):
    """A form whose new password must be typed again when this process hashes another one. Nothing is stored then."""

    busy_field = "password1"  # gets the focus

    def form_valid(self, form: PasswordFormMixin) -> HttpResponse:
        try:
            return cast(HttpResponse, super().form_valid(form))  # type: ignore[misc]
        except HashingBusy:
            form.add_busy_error(self.busy_field)
            return self.form_invalid(form)


def too_many_requests(request: HttpRequest, seconds: int = RETRY_AFTER_SECONDS) -> HttpResponse:
    """The page for limits that no form explains, such as allauth's own. D21."""
    response = render(
        request,
        "error.html",
        {
            "status": HTTPStatus.TOO_MANY_REQUESTS.value,
            "title": _("Too many requests"),
            "message": _("Too many requests came from your network in a short time."),
            "advice": _("Wait a minute, then try again."),
        },
        status=HTTPStatus.TOO_MANY_REQUESTS,
    )
    response["Retry-After"] = str(seconds)
    return response
