"""The service accepts every request that the published document allows; the document describes every response.

`make fuzz` draws 8,000 requests, valid and invalid ones; `FUZZ_SEED=…` repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.configuration import set_hypothesis_home_dir
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.driver import OAuthDriver, Page, record
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.faults.load import FORM
from tests.server import Server

OPERATIONS = ["GET /oauth/authorize", "POST /oauth/authorize", "POST /oauth/token", "GET /oauth/userinfo"]
FRESH = "a code that is made when it is sent"
OUR_PAGES = re.compile(r"(http://localhost:\d+)?/(oauth/authorize|accounts/sign-in)([/?]|$)")


@pytest.fixture(scope="module", autouse=True)
def no_files_in_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))


class Narrowed:
    """The document narrowed to existing data: an application, its callback address, a person's consent page."""

    def __init__(self, server: Server) -> None:
        self.base_url = server.base_url
        self.application = application = ApplicationFactory()
        person = PersonFactory()
        token = TokenFactory(application=application, user=person).raw
        self.bearer = {"Authorization": f"Bearer {token}"}
        self.credentials = (application.client_secret, token)
        record(*self.credentials)  # at the end, no log line has one
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

    def check(self, case: Any, *excluded: Any) -> int:
        """Run every check of Schemathesis, but for those excluded, on the response to the case. Returns its status.

        It also leads to a page of ours or to the registered address, and an error names no credential.
        """
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
        location = "".join(response.headers.get("location", []))
        assert not location or OUR_PAGES.match(location) or location.startswith(f"{self.application.redirect_uri}?")
        assert response.status_code < 400 or not any(each in response.text for each in self.credentials)
        is_refused = response.status_code == 303 or "error=" in location
        case.validate_response(response, excluded_checks=[*excluded, *[negative_data_rejection] * is_refused])
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


@pytest.mark.long
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("label", OPERATIONS)
def test_drawn_requests(provider: Server, committed: None, label: str, mode: GenerationMode) -> None:
    base_seed = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(1_000_000))
    narrowed, seen = Narrowed(provider), Counter[int]()

    @seed(base_seed)
    @settings(
        max_examples=1_000,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=narrowed.schema.find_operation_by_label(label).as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        # Whether a drawn value is valid depends on others.
        seen[narrowed.check(case, negative_data_rejection, positive_data_acceptance)] += 1

    print(f"FUZZ_SEED={base_seed}")  # noqa: T201 - shown by `-rP`
    holds()
    print(seen)  # noqa: T201
