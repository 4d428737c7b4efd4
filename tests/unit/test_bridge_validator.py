"""The quick look at an authorization request says yes exactly when the library, asked in full, finds nothing wrong."""

from __future__ import annotations

import itertools

import pytest
from django.test import RequestFactory

from oauth_bridge import applications, validator
from oauth_bridge.faults import Refused
from oauth_bridge.models import Application
from oauth_bridge.views import AuthorizeView
from tests.factories import ApplicationFactory

pytestmark = pytest.mark.django_db

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
VALUES = {
    "redirect_uri": ["https://client.example/callback", "https://client.example/callback/", "HTTPS://client.example/"],
    "response_type": ["code", "token", "Code", None],
    "code_challenge": [None, CHALLENGE, CHALLENGE + "=", CHALLENGE[:-1], "é" * 43],
    "code_challenge_method": [None, "S256", "plain", "s256"],
    "scope": [None, "profile email"],
}


def library_holds(parameters: dict[str, str]) -> bool:
    request = RequestFactory().get("/oauth/authorize")
    request.oauth_parameters = parameters
    try:
        AuthorizeView().validate_authorization_request(request)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("kind", [Application.CLIENT_CONFIDENTIAL, Application.CLIENT_PUBLIC])
@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_quick_look_and_the_library_agree(kind: str, is_enabled: bool) -> None:
    row = ApplicationFactory(client_type=kind, is_enabled=is_enabled).row
    answers = set()
    for values in itertools.product(*VALUES.values()):
        sent = dict(zip(VALUES, values, strict=True)) | {"client_id": row.client_id}
        parameters = {name: value for name, value in sent.items() if value}
        quick = validator.holds(applications.find(row.client_id), parameters)
        assert quick is library_holds(parameters), parameters
        answers.add(quick)
    assert answers == ({True, False} if is_enabled else {False})


def test_nobody_holds_without_an_application() -> None:
    assert not validator.holds(applications.find("nobody"), {"response_type": "code"})
