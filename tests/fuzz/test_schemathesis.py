"""The service accepts every request that the published document allows; the document describes every response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.server import Server

OPERATIONS = ["GET /oauth/authorize", "POST /oauth/authorize", "POST /oauth/token", "GET /oauth/userinfo"]
TAKEN = {200, 302, 303}
FRESH = "a code that is made when it is sent"
SETTINGS = settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


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
        content = self.published["paths"][path]["post"]["requestBody"]["content"]
        schema = content["application/x-www-form-urlencoded"]["schema"]
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


@pytest.fixture(scope="module")
def narrowed(provider: Server, django_db_blocker: Any) -> Iterator[Narrowed]:
    with django_db_blocker.unblock():
        yield Narrowed(provider)


@pytest.mark.parametrize("label", OPERATIONS)
@pytest.mark.parametrize("mode", GenerationMode)
def test_what_is_generated_from_the_document(narrowed: Narrowed, label: str, mode: GenerationMode) -> None:
    operation = narrowed.schema.find_operation_by_label(label)
    assert operation
    seen: Counter[int] = Counter()

    @SETTINGS
    @given(case=operation.as_strategy(mode))
    def holds(case: Any) -> None:
        seen[narrowed.check(case)] += 1

    holds()
    assert seen.keys() & TAKEN or mode.is_negative, seen


def test_the_edges_of_the_document(narrowed: Narrowed) -> None:
    """Every limit, type and missing parameter, and every method that is not described."""
    seen: Counter[tuple[str, int]] = Counter()
    for label in OPERATIONS:
        operation = narrowed.schema.find_operation_by_label(label)
        assert operation
        for case in narrowed.schema.iter_coverage_cases(
            operation, generation_modes=list(GenerationMode), generation_config=narrowed.schema.config.generation
        ):
            seen[operation.path, narrowed.check(case)] += 1
    assert {path for path, status in seen if status == 405} == {label.split()[1] for label in OPERATIONS}
