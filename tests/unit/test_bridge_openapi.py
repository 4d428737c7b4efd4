"""The OpenAPI document says what the service says, and all of it."""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from django.test import Client

from config.infrastructure.errors import SiteFault
from oauth_bridge.api_docs.openapi import FAULTS, document
from oauth_bridge.callback_addresses import registration
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth import authorization
from oauth_bridge.oauth.parameters import BODY_LIMIT_BYTES
from oauth_bridge.openid import claims, request
from tests.contract import openapi_responses

# Said of pages outside the three operations only, or by a page that no program meets.
ELSEWHERE = {
    SiteFault.BUSY,
    SiteFault.FORBIDDEN,
    SiteFault.HOST_CHANGED,
    OAuthFault.ATTEMPT_FINISHED,
    OAuthFault.CONSENT_PAGE_OUTDATED,
}


def test_the_document_is_valid_and_has_every_parameter_claim_and_limit_of_the_service() -> None:
    schemathesis.openapi.from_dict(document()).validate()
    paths, schemas = document()["paths"], document()["components"]["schemas"]
    described = {each["name"]: each["schema"] for each in paths["/oauth/authorize"]["get"]["parameters"]}
    accepted = {*authorization.NAMES, *request.NAMES, "state", "ui_locales"}
    assert described.keys() == accepted - {"request", "request_uri"}
    assert described["redirect_uri"]["maxLength"] == registration.MAX_LENGTH
    assert f"At most {BODY_LIMIT_BYTES} bytes" in paths["/oauth/token"]["post"]["description"]
    assert schemas["Claims"]["properties"].keys() == {"sub", *claims.NAMES}


def test_every_failure_is_in_the_document_with_its_sentence_and_an_answer_that_it_allows() -> None:
    told = set(openapi_responses.callback_faults())
    operations = [each for path in document()["paths"].values() for name, each in path.items() if name != "servers"]
    for status, response in (found for each in operations for found in each["responses"].items()):
        content = response.get("content", {}).get("application/json", {})
        for name, example in content.get("examples", {}).items():
            body = example["value"]
            sent = json.dumps(body).encode()
            assert openapi_responses.of_content({"application/json": content}, "application/json", sent) == []
            if "error" in body:
                fault = FAULTS[name.upper()]
                told.add(fault)
                assert (str(fault.status), fault.error) == (status, body["error"])
                assert openapi_responses.sentence(fault).fullmatch(body["error_description"])
                assert "{" not in body["error_description"]
    assert set(FAULTS.values()) - told == ELSEWHERE


def test_it_is_published_cacheable_with_the_addresses_of_the_settings(settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = "https://api.example", "https://sign-in.example"
    client = Client()
    answer = client.get("/openapi.json")
    assert (answer["Content-Type"], answer["Cache-Control"]) == ("application/json", "public, max-age=300")
    published = answer.json()
    assert published == document()
    servers = [*published["servers"], *published["paths"]["/oauth/authorize"]["servers"]]
    assert [server["url"] for server in servers] == ["https://api.example", "https://sign-in.example"]
    assert client.get("/openapi.json", headers={"If-None-Match": answer["ETag"]}).status_code == 304
    assert client.post("/openapi.json").status_code == 405
