"""Serve openapi.json with the addresses of this service and the errors of each operation. Specification 4, 7; D19.

The members `x-…` of the file say what is inserted: `x-faults` the errors of an operation (names of faults, or of the
lists at the end of the file), `x-examples` the example values for the placeholders in their sentences, `x-headers` the
headers of every response that is not `x-cacheable`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page

from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.api_docs import snippets
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.operation import operation

Json = dict[str, Any]

FILE = Path(__file__).with_name("openapi.json")
METHODS = ("get", "post")
FAULTS: dict[str, Fault] = {**SiteFault.__members__, **OAuthFault.__members__}
REFERENCE = "7K3M9QXT"
RETRY_AFTER = {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}}
# Not required, because the web server's own errors lack it. An example is the error for a long request line. D22.
EVERY_ORIGIN = {"Access-Control-Allow-Origin": {"schema": {"type": "string", "const": "*"}}}


@conditional_page
@cache_control(public=True, max_age=300)
def _published_document(request: HttpRequest) -> HttpResponse:
    body = _served(settings.AUTH_URL, settings.BASE_URL, settings.SERVICE_NAME)
    return HttpResponse(body, content_type="application/json")


published = operation(_published_document, "GET", "HEAD")


@functools.cache
def _served(*_settings: str) -> str:
    """Return the document as text. The settings are part of the cache key, so that a test may change a setting."""
    return json.dumps(document(), ensure_ascii=False)


def source() -> Json:
    """Return the file with the addresses, the name and the version of this service, and with the members `x-…`."""
    described: Json = json.loads(snippets.fill(FILE.read_text(encoding="utf-8")))
    described["info"] |= {"title": settings.SERVICE_NAME, "version": settings.VERSION}
    return described


def document() -> Json:
    """Return the document as it is served."""
    described = source()
    for operations in described["paths"].values():
        for method in operations.keys() & METHODS:
            operations[method] = _completed(described, operations[method], for_browsers="servers" in operations)
    served: Json = _without_marks(described)
    return served


def errors_of(described: Json, marks: Json) -> Iterator[tuple[Fault, str, str]]:
    """Yield the errors of an operation of `source()`: the fault, the problem and the fix, with example values."""
    lists, common = described["x-faults"], described["x-examples"]
    for name in dict.fromkeys(name for each in marks["x-faults"] for name in lists.get(each, [each])):
        values = {**common, **marks.get("x-examples", {}), **common.get(name, {})}
        yield FAULTS[name], FAULTS[name].problem.format(**values), FAULTS[name].fix.format(**values)


def _completed(described: Json, marks: Json, *, for_browsers: bool) -> Json:
    responses = marks["responses"]
    for response in responses.values():
        if "x-callback" in response:
            response["description"] += _callback_errors(described)
        names = ["X-Content-Type-Options"] if "x-cacheable" in response else described["x-headers"]
        response["headers"] = {name: described["x-headers"][name] for name in names} | response.get("headers", {})
    errors = sorted(errors_of(described, marks), key=_status)
    for status, same in groupby(errors, key=_status):
        responses.setdefault(str(status), _failure(described, marks, status, list(same), for_browsers=for_browsers))
    for response in () if for_browsers else responses.values():
        response["headers"] |= EVERY_ORIGIN
    return {**marks, "responses": dict(sorted(responses.items()))}


def _status(error: tuple[Fault, str, str]) -> int:
    return error[0].status


def _failure(
    described: Json, marks: Json, status: int, same: list[tuple[Fault, str, str]], *, for_browsers: bool
) -> Json:
    """Return the response with a status, with one example for each error."""
    names = list(dict.fromkeys(fault.error for fault, *_sentences in same))
    description = f"{' or '.join(f'`{name}`' for name in names)}. The examples are all that is said."
    content: Json = {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Error", "properties": {"error": {"enum": names}}},
            "examples": {fault.name.lower(): {"value": _body(fault, *sentences)} for fault, *sentences in same},
        }
    }
    if for_browsers:
        description += " A page when `Accept` names `text/html`."
        content["text/html"] = {}
    headers = dict(described["x-headers"])
    if status == 405:
        headers["Allow"] = {"required": True, "schema": {"type": "string", "const": marks["x-examples"]["allow"]}}
    elif status in (429, 503):
        headers |= RETRY_AFTER
    elif status in (401, 403) and "x-challenge" in marks:
        headers["WWW-Authenticate"] = {"description": marks["x-challenge"], "schema": {"type": "string"}}
    return {"description": description, "headers": headers, "content": content}


def _body(fault: Fault, problem: str, fix: str) -> dict[str, str]:
    return {"error": fault.error, "error_description": f"{f'{problem} {fix}'.strip()} Reference {REFERENCE}."}


def _callback_errors(described: Json) -> str:
    rows = [
        f"| `{fault.error}` | {f'{problem} {fix}'.strip()} |"
        for fault, problem, fix in errors_of(described, described["x-callback"])
    ]
    return "\n".join(["\n\n| `error` | `error_description` |", "|---|---|", *rows])


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(each) for each in value]
    if isinstance(value, dict):
        return {name: _without_marks(each) for name, each in value.items() if not name.startswith("x-")}
    return value
