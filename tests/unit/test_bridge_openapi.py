"""The OpenAPI document says what the service says, and all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from django.test import Client

from config.infrastructure.errors import SiteFault
from oauth_bridge.errors import OAuthFault
from oauth_bridge.openapi.document import CALLBACK, document
from oauth_bridge.protocol import authorization_request, openid_request
from tests import openapi_responses

# Said of pages outside the three operations only, or by a page that no program meets.
ELSEWHERE = {
    SiteFault.BUSY,
    SiteFault.FORBIDDEN,
    OAuthFault.ATTEMPT_FINISHED,
    OAuthFault.CONSENT_PAGE_OUTDATED,
}


def responses() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, status, response)
        for path, operations in document()["paths"].items()
        for name, operation in operations.items()
        if name != "servers"
        for status, response in operation["responses"].items()
    ]


def examples() -> list[tuple[str, str, str, dict[str, str]]]:
    return [
        (path, status, name, example["value"])
        for path, status, response in responses()
        for name, example in response.get("content", {}).get("application/json", {}).get("examples", {}).items()
    ]


def test_the_document_is_valid() -> None:
    schemathesis.openapi.from_dict(document()).validate()


def test_authorize_has_every_parameter_that_the_service_reads() -> None:
    described = [each["name"] for each in document()["paths"]["/oauth/authorize"]["get"]["parameters"]]
    refused = {"request", "request_uri"}
    accepted = {*authorization_request.NAMES, *openid_request.NAMES, "state", "ui_locales"} - refused
    assert sorted(described) == sorted(accepted)


def test_every_failure_is_in_the_document_with_its_sentence() -> None:
    told = {openapi_responses.FAULTS[name.upper()] for _path, _status, name, _body in examples()} | set(CALLBACK)
    assert set(openapi_responses.FAULTS.values()) - told == ELSEWHERE
    for _path, status, name, body in examples():
        fault = openapi_responses.FAULTS[name.upper()]
        assert (str(fault.status), fault.error) == (status, body["error"])
        assert openapi_responses.sentence(fault).fullmatch(body["error_description"])
        assert "{" not in body["error_description"]


def test_every_example_is_an_answer_that_the_document_allows() -> None:
    for _path, _status, response in responses():
        for content in response.get("content", {}).values():
            for example in content.get("examples", {}).values():
                found = openapi_responses.of_content(
                    {"application/json": content}, "application/json", encoded(example)
                )
                assert found == []


def encoded(example: dict[str, Any]) -> bytes:
    return json.dumps(example["value"]).encode()


def test_it_is_published_cacheable_with_the_addresses_of_the_settings(settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = "https://api.example", "https://sign-in.example"
    client = Client()
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    assert answer["Cache-Control"] == "public, max-age=300"
    published = answer.json()
    assert published == json.loads(json.dumps(document()))
    assert [server["url"] for server in published["servers"]] == ["https://api.example"]
    assert [server["url"] for server in published["paths"]["/oauth/authorize"]["servers"]] == [
        "https://sign-in.example"
    ]
    again = client.get("/openapi.json", headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304
    assert client.post("/openapi.json").status_code == 405


HEADERS = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Reference": "7K3M9QXT",
}
UNKNOWN = {
    "error": "invalid_token",
    "error_description": "The access token is not known. Start the sign-in again. Reference 7K3M9QXT.",
}


@pytest.mark.parametrize(
    ("status", "headers", "body", "problem"),
    [
        (401, {}, {}, ""),
        (418, {}, {}, "status 418"),
        (401, {"Cache-Control": "public"}, {}, "Cache-Control"),
        (401, {"X-Content-Type-Options": None}, {}, "no X-Content-Type-Options"),
        (401, {"X-Reference": None}, {}, "no X-Reference"),
        (401, {"X-Reference": "7k3m9qxt"}, {}, "X-Reference"),
        (401, {"Content-Type": "text/html"}, {}, "content of type"),
        (401, {}, {"error": "invalid_grant"}, "invalid_grant"),
        (401, {}, {"error_description": None}, "error_description"),
        (401, {}, {"error_description": "The token is not known."}, "the sentence"),
        (429, {}, {"error": "rate_limited", "error_description": "Too many requests. Wait a bit."}, "no Retry-After"),
        (405, {}, {"error": "method_not_allowed", "error_description": "x"}, "no Allow"),
    ],
)
def test_what_the_document_does_not_describe_is_found(
    status: int, headers: dict[str, str | None], body: dict[str, str | None], problem: str
) -> None:
    sent = {name: value for name, value in {**HEADERS, **headers}.items() if value is not None}
    said = {name: value for name, value in {**UNKNOWN, **body}.items() if value is not None}
    found = openapi_responses.problems("GET", "/oauth/userinfo", status, sent, json.dumps(said).encode())
    assert problem in "; ".join(found)
    assert bool(found) == bool(problem)
