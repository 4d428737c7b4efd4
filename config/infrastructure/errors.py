"""The exception that rejects a request, and the faults that are common to the whole site. Specification 7."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Self
from uuid import UUID

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences that a page may show

from config.infrastructure import events, network
from config.infrastructure.events import Event

# The sentences of a fault are public. RFC 6749 §5.2 allows only ASCII without quotation mark and backslash in them.
NOT_ALLOWED = re.compile(r"[^\x20-\x21\x23-\x5B\x5D-\x7E]")
# The `error` of a status. Every other status has the `error` invalid_request.
ERRORS = {
    403: "access_denied",
    404: "not_found",
    405: "method_not_allowed",
    429: "rate_limited",
    500: "server_error",
    503: "temporarily_unavailable",
}
FULL_WIDTH_STOP = "\u3002"  # the Chinese full stop, after which no space follows


class TranslatableText:
    """A translatable part of a sentence. Several `texts` become "a, b and c". `details` fill their placeholders."""

    def __init__(self, *texts: str, **details: object) -> None:
        self.texts, self.details = texts, details

    def __str__(self) -> str:
        return self._join(str)

    def translate(self) -> str:
        return self._join(gettext)

    def _join(self, translated: Callable[[str], str]) -> str:
        *others, last = [translated(text).format(**self.details) for text in self.texts]
        if not others:
            return last
        return translated(_("{others} and {last}")).format(others=", ".join(others), last=last)


class Fault(Enum):
    """A kind of error. Its name in lower case is its code in logs and metrics, so no two faults have the same name."""

    def __init__(self, status: int, error: str, problem: str, fix: str = "") -> None:
        self.status = status
        self.error = error
        self.problem = problem
        self.fix = fix

    @property
    def sentence(self) -> str:
        return f"{self.problem} {self.fix}".strip()

    def describe(self, **details: object) -> str:
        return NOT_ALLOWED.sub("?", self.sentence.format(**details)).strip()

    def translate(self, **details: object) -> str:
        """Return problem and fix for a page, in the active language."""
        spoken = {
            name: detail.translate() if isinstance(detail, TranslatableText) else NOT_ALLOWED.sub("?", str(detail))
            for name, detail in details.items()
        }
        first, second = (gettext(text).format(**spoken) for text in (self.problem, self.fix))
        return f"{first}{'' if first.endswith(FULL_WIDTH_STOP) else ' '}{second}".strip()


class SiteFault(Fault):
    def __init__(self, status: int, problem: str, fix: str = "") -> None:
        super().__init__(status, ERRORS.get(status, "invalid_request"), problem, fix)

    BAD_REQUEST = (400, _("The request is malformed and could not be read."), _("Check it and send it again."))
    HOST = (400, _("This host name is not served here."), _("The operator names it in ALLOWED_HOSTS."))
    HOST_NAMED = (
        400,
        _("The request is for the host {host}, but ALLOWED_HOSTS holds {hosts}."),
        _("Use one of these, or add it there."),
    )
    HOST_CHANGED = (
        400,
        _("The request arrived for the host {host}, but AUTH_URL is {auth_url}."),
        _("The proxy must pass the Host header on as it came, with the port. Without a proxy, open {auth_url}."),
    )
    CSRF = (403, _("The form was out of date."), _("Open the page again and repeat it."))
    CSRF_NO_COOKIE = (
        403,
        _("Your browser sent no cookie of this site with the form."),
        _("Allow them, then open the page again and repeat it."),
    )
    CSRF_ORIGIN = (
        403,
        _("Your browser said that the form came from another site, or did not say from which."),
        _("Open the page again by its own address. If it stays so, switch off extensions that change requests."),
    )
    FORBIDDEN = (403, _("You may not do this."), _("Sign in with an account that may."))
    NOT_FOUND = (404, _("There is nothing at this path."), "{hint}")
    METHOD = (405, _("This path does not take {method}."), _("Use {allow}."))
    HEADER_TOO_LONG = (431, _("The header {name} is longer than {limit} characters."), _("Send a shorter one."))
    RATE_LIMITED = (429, _("Too many requests."), _("Wait {seconds} seconds and try again."))
    SERVER_ERROR = (500, _("Something went wrong on our side."), _("Quote the reference to support."))
    AWAY = (503, _("The service cannot use its database now."), _("Try again in a few seconds."))
    BUSY = (503, _("Too many passwords are being checked now."), _("Try again in a few seconds."))
    MEDIA_TYPE = (400, _("The body is {given}."), _("Send the parameters as application/x-www-form-urlencoded."))
    TOO_MANY_FIELDS = (
        400,
        _("The form has more than {limit} fields or files."),
        _("Send fewer, of a list of rows at most 30 at once."),
    )
    TOO_LARGE = (413, _("The request body is too large."), _("At most {limit} bytes are read."))


@dataclass(slots=True)
class Subject:
    """The known facts about a request, for the event "refused" and the activity log."""

    client_id: str = ""
    person: UUID | None = None
    attempt: UUID | None = None
    step: str = ""
    is_proven: bool = False  # the caller sent a secret, code or token of this service
    errors: list[RequestError] = field(default_factory=list)


of_subject: ContextVar[Subject | None] = ContextVar("subject", default=None)


def subject() -> Subject:
    """Return the subject of the present request. Outside of a request, return a new subject, which nothing reads."""
    return of_subject.get() or Subject()


class RequestError(Exception):
    """Rejects the request. The response gets `headers`. `details` fill the placeholders of the fault's sentences."""

    def __init__(self, fault: Fault, headers: dict[str, str] | None = None, **details: object) -> None:
        super().__init__(fault.name)  # so that no traceback shows a part of the request
        self.fault = fault
        self.headers = headers or {}
        self._sentence = fault.describe(**details)
        self.details = details
        self._cause = ""
        self.private: dict[str, object] = {}

    @property
    def description(self) -> str:
        return network.with_reference(self._sentence)

    @property
    def cause(self) -> str:
        return self._cause or self.fault.name.lower()

    def about(self, *, cause: str = "", **private: object) -> Self:
        """Add `private` facts, which the client does not see, and a `cause` for the logs. Keep existing values."""
        self._cause = self._cause or cause
        self.private = {**private, **self.private}
        return self


def report(error: RequestError) -> None:
    """Log the error when the request ends. Call this once for each error response and each form shown again."""
    known = of_subject.get()
    if known is None:
        write(error)
    else:
        known.errors.append(error)


def write(error: RequestError) -> None:
    events.write(
        Event.REFUSED,
        code=error.fault.name.lower(),
        status=error.fault.status,
        cause=error.cause,
        client_id=subject().client_id or None,
        person=subject().person,
    )
