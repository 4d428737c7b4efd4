"""What tests of errors and security events share: the lines of the log, and a browser on its way to an application."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlencode

from django.test import Client

from config.infrastructure import references
from tests.factories import ApplicationFactory, PersonFactory, Registered

HTML = {"HTTP_ACCEPT": "text/html"}


class Log(logging.Handler):
    """The events, each with the reference of its request."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append({**vars(record), "reference": references.current.get()})

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


class Attempt:
    """A browser, signed in or not, and an application."""

    def __init__(self) -> None:
        self.application: Registered = ApplicationFactory()
        self.person = PersonFactory()
        self.browser = Client(raise_request_exception=False)

    def link(self, **changes: str) -> str:
        known = {"client_id": self.application.client_id, "redirect_uri": self.application.redirect_uri}
        return f"/oauth/authorize?{urlencode({**known, 'response_type': 'code', **changes})}"

    def form(self, **fields: str) -> dict[str, str]:
        """The fields of a consent page."""
        self.browser.force_login(self.person)
        page = self.browser.get(self.browser.get(self.link(), **HTML)["Location"], **HTML)
        return {"pending": page.context["pending"], **fields}

    def post(self, path: str, form: dict[str, str], browser: Client | None = None) -> Any:
        content_type = "application/x-www-form-urlencoded"
        return (browser or self.browser).post(path, urlencode(form), content_type, **HTML)

    def answer(self, **fields: str) -> Any:
        return self.post("/oauth/authorize", self.form(**fields))
