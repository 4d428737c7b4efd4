"""Compares responses of the three operations with the OpenAPI document."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema_rs
import requests

from config.infrastructure.errors import Fault
from oauth_bridge.api_docs import openapi
from oauth_bridge.api_docs.openapi import FAULTS

Json = dict[str, Any]


def check(response: requests.Response, **_options: object) -> None:
    """For `tests.driver.RESPONSE_CHECKS`. Raises AssertionError: the document does not describe the response."""
    found = _problems(response, response.request.method or "", urlsplit(response.url).path)
    assert found == [], f"/openapi.json and {response.request.method} {response.url.partition('?')[0]} differ: {found}"


def _problems(answer: requests.Response, method: str, path: str) -> list[str]:
    """The differences between the response and the document; none for a path that it does not describe."""
    status, headers, body = answer.status_code, answer.headers, answer.content
    operations = described()["paths"].get(path)
    if operations is None:
        return []
    operation = operations.get("get" if method == "HEAD" else method.lower())
    if operation is None:
        if method == "OPTIONS" and status == 200:  # a preflight (D22), which browsers send by themselves
            return [] if "Access-Control-Allow-Methods" in headers and not body else ["200 for OPTIONS"]
        operation = next(each for name, each in operations.items() if name in ("get", "post"))
        if status not in (400, 405, 431, 500, 503):
            return [f"{status} for a method that is not described"]
    response = operation["responses"].get(str(status))
    if response is None:
        return [f"status {status}"]
    found = [*_of_headers(response.get("headers", {}), headers)]
    if "content" in response:
        found += of_content(response["content"], headers.get("Content-Type", ""), b"" if method == "HEAD" else body)
    sent = dict(parse_qsl(urlsplit(headers.get("Location", "")).query))
    if "error" in sent and not _is_said(sent, callback_faults()):
        found.append(f"at the callback {sent['error']}: {sent.get('error_description')!r}")
    return found


@functools.cache
def described() -> Json:
    return openapi.document()


@functools.cache
def callback_faults() -> list[Fault]:
    source = openapi.source()
    return [fault for fault, _sentence in openapi.errors_of(source, source["x-callback"])]


def _of_headers(wanted: Json, headers: Mapping[str, str]) -> list[str]:
    given = {
        name: int(headers[name]) if header["schema"].get("type") == "integer" else headers[name]
        for name, header in wanted.items()
        if name in headers
    }
    required = [name for name, header in wanted.items() if header.get("required")]
    schema = {"required": required, "properties": {name: header["schema"] for name, header in wanted.items()}}
    return [error.message for error in _validator(json.dumps(schema)).iter_errors(given)]


def of_content(wanted: Json, content_type: str, body: bytes) -> list[str]:
    media_type = content_type.partition(";")[0]
    if media_type not in wanted:
        return [f"content of type {media_type!r}"]
    if media_type != "application/json" or not body:
        return []
    content = wanted[media_type]
    value = json.loads(body.decode("utf-8"))
    schema = {**content["schema"], "components": described()["components"]}
    found = [error.message for error in _validator(json.dumps(schema)).iter_errors(value)]
    if not found and "examples" in content:
        faults = [FAULTS[name.upper()] for name in content["examples"]]
        found += [] if _is_said(value, faults) else [f"the sentence {value['error_description']!r}"]
    return found


def _is_said(body: Mapping[str, str], faults: Any) -> bool:
    return any(
        body["error"] == fault.error and sentence(fault).fullmatch(body.get("error_description", ""))
        for fault in faults
    )


@functools.cache
def sentence(fault: Fault) -> re.Pattern[str]:
    """Matches the sentence with any values for its parameters, and a reference."""
    said = ".*".join(re.escape(part) for part in re.split(r"\{\w+\}", fault.sentence))
    return re.compile(rf"{said} Reference [0-9A-HJKMNP-TV-Z]{{8}}\.")


@functools.cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(schema), validate_formats=True)
