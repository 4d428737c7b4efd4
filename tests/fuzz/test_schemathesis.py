"""The service accepts every request that the published document allows; the document describes every response."""

from __future__ import annotations

from collections import Counter
from typing import Any

import requests
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.faults.load import FORM
from tests.server import Server

OPERATIONS = ["GET /oauth/authorize", "POST /oauth/authorize", "POST /oauth/token", "GET /oauth/userinfo"]
FRESH = "a code that is made when it is sent"


class Narrowed:
    """The document narrowed to existing data: an application, its callback address, a person's consent page."""

    def __init__(self, server: Server) -> None:
        self.base_url = server.base_url
        self.application = application = ApplicationFactory()
        person = PersonFactory()
        self.bearer = {"Authorization": f"Bearer {TokenFactory(application=application, user=person).raw}"}
        driver = OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, PASSWORD)
        self.browser = driver.browser
        consent = Page(driver.open(driver.authorization_url(application))).consent
        assert consent
        self.published: dict[str, Any] = requests.get(f"{server.base_url}/openapi.json", timeout=60).json()
        client = {"client_id": application.client_id, "redirect_uri": application.redirect_uri}
        for parameter in self.published["paths"]["/oauth/authorize"]["get"]["parameters"]:
            if parameter["name"] in client:
                parameter["schema"] = {"const": client[parameter["name"]]}
        self._narrow("/oauth/authorize", consent.fields)
        self._narrow("/oauth/token", {**client, "client_secret": application.client_secret, "code": FRESH})
        self.schema = schemathesis.openapi.from_dict(self.published)

    def _narrow(self, path: str, known: dict[str, str]) -> None:
        schema = self.published["paths"][path]["post"]["requestBody"]["content"][FORM["Content-Type"]]["schema"]
        schema["properties"] |= {name: {"const": value} for name, value in known.items()}
        schema["required"] = sorted({*schema["required"], *known} - {"redirect_uri"})

    def check(self, case: Any) -> int:
        """Run every check of Schemathesis on the response to the case. Returns its status."""
        if isinstance(case.body, dict) and case.body.get("code") == FRESH:
            case.body["code"] = CodeFactory(application=self.application).raw
        response = case.call(
            base_url=self.base_url,
            session=self.browser if case.path == "/oauth/authorize" else None,
            headers=self.bearer if case.path == "/oauth/userinfo" else None,
            allow_redirects=False,
        )
        # Errors in a request of a known application are redirected to its callback address, and an invalid
        # consent form leads to the consent page again: all are redirects (D4, D8).
        is_refused = response.status_code == 303 or "error=" in "".join(response.headers.get("location", []))
        case.validate_response(response, excluded_checks=[negative_data_rejection] if is_refused else [])
        return int(response.status_code)


def test_the_edges_of_the_document(provider: Server, committed: None) -> None:
    """Every limit, type and missing parameter, and every method that is not described."""
    narrowed, seen = Narrowed(provider), Counter[tuple[str, int]]()
    for label in OPERATIONS:
        operation = narrowed.schema.find_operation_by_label(label)
        assert operation
        for case in narrowed.schema.iter_coverage_cases(
            operation, generation_modes=list(GenerationMode), generation_config=narrowed.schema.config.generation
        ):
            seen[label if case.method == operation.method.upper() else operation.path, narrowed.check(case)] += 1
    assert {label for label in OPERATIONS if any(seen[label, status] for status in (200, 302, 303))} == {*OPERATIONS}
    assert {path for path, status in seen if status == 405} == {label.split()[1] for label in OPERATIONS}
