"""The verified callback address of a request, and the redirect to it. D5, D6, D20."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from django.http import HttpRequest, HttpResponse

from config.infrastructure import errors
from config.infrastructure.errors import RequestError


class Callback(NamedTuple):
    """A verified callback address, and the percent-encoded parameters that each answer contains. D5, D6.

    A parameter that is None is left out. `iss` is sent to applications that use OpenID Connect (RFC 9207). If
    `is_posted` is true, a form posts the parameters.
    """

    redirect_uri: str
    state: str | None
    iss: str | None
    is_posted: bool = False

    def url(self, **parameters: str) -> str:
        """Return the address with `parameters`, `state` and `iss`. `parameters` are already percent-encoded."""
        sent = {**parameters, "state": self.state, "iss": self.iss}
        pairs = "&".join([f"{name}={value}" for name, value in sent.items() if value is not None])
        return f"{self.redirect_uri}{'&' if '?' in self.redirect_uri else '?'}{pairs}"

    def fields(self, url: str) -> list[tuple[str, str]]:
        """Return the parameters in a URL that the method `url` of this object has made."""
        return parse_qsl(url[len(self.redirect_uri) + 1 :], keep_blank_values=True, errors="replace")

    def error_url(self, error: RequestError) -> str:
        """Report the error, and return the address with the error as parameters. RFC 6749 §4.1.2.1."""
        errors.report(error)
        return self.url(error=error.fault.error, error_description=quote(error.description, safe=""))


def redirect_to_callback(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect to `url` with status 302, or with 303 after a post. D20.

    Django's HttpResponseRedirect is not suitable, because it rewrites the URL and refuses private schemes.
    """
    status = HTTPStatus.SEE_OTHER if request.method == "POST" else HTTPStatus.FOUND
    return HttpResponse(status=status, headers={"Location": url, "Referrer-Policy": "no-referrer"})
