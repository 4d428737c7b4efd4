"""Serve openapi.json with the addresses of this service and the errors of each operation. Specification 4, 7.

The members `x-…` of the file are not served. They say what to insert: errors (`x-faults`, `x-callback`), example values
(`x-examples`) and headers (`x-headers`, `x-challenge`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page

from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.operation import operation

Json = dict[str, Any]

FILE = Path(__file__).with_name("openapi.json")
METHODS = ("get", "post")
FAULTS: dict[str, Fault] = {**SiteFault.__members__, **OAuthFault.__members__}
REFERENCE = "7K3M9QXT"
RETRY_AFTER = {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}}
# Not required, because the web server's own errors lack it. An example is the error for a long request line.
EVERY_ORIGIN = {"Access-Control-Allow-Origin": {"schema": {"type": "string", "const": "*"}}}
REPEATED = ("answerConsent", "logoutByPost")  # operations that the reference leaves out


@conditional_page
@cache_control(public=True, max_age=300)
def _published_document(request: HttpRequest) -> HttpResponse:
    body = _served(settings.AUTH_URL, settings.BASE_URL, settings.SERVICE_NAME)
    return HttpResponse(body, content_type="application/json")


published = operation(_published_document, "GET", "HEAD")


@functools.cache  # the settings are part of the key, so that a test may change a setting
def _served(*_settings: str) -> str:
    return json.dumps(document(), ensure_ascii=False)


def fill(text: str, **values: str) -> str:
    filled = {
        "AUTH_URL": settings.AUTH_URL,
        "BASE_URL": settings.BASE_URL,
        "SERVICE_NAME": settings.SERVICE_NAME or "Sign-in service",
        **values,
    }
    return re.sub(r"\{([A-Z_]+)\}", lambda name: filled.get(name[1], name[0]), text)


def source() -> Json:
    """Return openapi.json with the addresses, name and version of this service. The members `x-…` are kept."""
    described: Json = json.loads(fill(FILE.read_text(encoding="utf-8")))
    described["info"] |= {"title": settings.SERVICE_NAME, "version": settings.VERSION}
    return described


def document() -> Json:
    """Return the document as it is served: with headers and errors, without the members `x-…`."""
    described = source()
    for operations in described["paths"].values():
        for method in operations.keys() & METHODS:
            _complete(described, operations[method], for_browsers="servers" in operations)
    served: Json = json.loads(
        json.dumps(described),
        object_hook=lambda members: {name: value for name, value in members.items() if not name.startswith("x-")},
    )
    return served


def errors_of(described: Json, marks: Json) -> Iterator[tuple[Fault, str]]:
    """Yield each fault that `marks` (an operation or `x-callback`) names, and its sentence with example values."""
    lists, common = described["x-faults"], described["x-examples"]
    # Each name in `marks["x-faults"]` is that of a list in `lists`, or of one fault.
    for name in dict.fromkeys(name for each in marks["x-faults"] for name in lists.get(each, [each])):
        values = {**common, **marks.get("x-examples", {}), **common.get(name, {})}
        yield FAULTS[name], FAULTS[name].describe(**values)


def _complete(described: Json, marks: Json, *, for_browsers: bool) -> None:
    """Add headers and errors to the responses of the operation `marks`. `for_browsers`: the operation is a page."""
    responses, common = marks["responses"], described["x-headers"]
    for response in responses.values():
        if "x-callback" in response:
            rows = errors_of(described, described["x-callback"])
            table = [f"| `{fault.error}` | {sentence} |" for fault, sentence in rows]
            response["description"] += "\n".join(["\n\n| `error` | `error_description` |", "|---|---|", *table])
        names = ["X-Content-Type-Options"] if "x-cacheable" in response else common
        response["headers"] = {name: common[name] for name in names} | response.get("headers", {})
    errors = sorted(errors_of(described, marks), key=lambda error: error[0].status)
    for status, same in groupby(errors, key=lambda error: error[0].status):
        responses.setdefault(str(status), _failure(marks, status, list(same), dict(common), for_browsers=for_browsers))
    for response in () if for_browsers else responses.values():
        response["headers"] |= EVERY_ORIGIN
    marks["responses"] = dict(sorted(responses.items()))


def _failure(marks: Json, status: int, same: list[tuple[Fault, str]], headers: Json, *, for_browsers: bool) -> Json:
    """Return the OpenAPI response of the operation `marks` for an HTTP status. `same`: the errors with this status."""
    names = list(dict.fromkeys(fault.error for fault, _sentence in same))
    description = f"{' or '.join(f'`{name}`' for name in names)}. The examples are all that is said."
    examples = {}
    for fault, sentence in same:
        body = {"error": fault.error, "error_description": f"{sentence} Reference {REFERENCE}."}
        examples[fault.name.lower()] = {"value": body}
    schema = {"$ref": "#/components/schemas/Error", "properties": {"error": {"enum": names}}}
    content: Json = {"application/json": {"schema": schema, "examples": examples}}
    if for_browsers:
        description += " A page when `Accept` names `text/html`."
        content["text/html"] = {}
    if status == 405:
        headers["Allow"] = {"required": True, "schema": {"type": "string", "const": marks["x-examples"]["allow"]}}
    elif status in (429, 503):
        headers |= RETRY_AFTER
    elif status in (401, 403) and "x-challenge" in marks:
        headers["WWW-Authenticate"] = {"description": marks["x-challenge"], "schema": {"type": "string"}}
    return {"description": description, "headers": headers, "content": content}


# As Markdown ----------------------------------------------------------------------------------------------------------


def reference() -> str:
    """Return Markdown with the parameters, responses and examples of all operations except REPEATED."""
    described = document()
    lines = ["# Reference", "", f"This page is made from `{settings.BASE_URL}/openapi.json`, which tools can read.", ""]
    lines.append(described["info"]["description"])
    for path, operations in described["paths"].items():
        server = operations.get("servers", described["servers"])[0]["url"]
        for method, marks in operations.items():
            if method in METHODS and marks["operationId"] not in REPEATED:
                lines += [f"## `{method.upper()} {path}`", "", marks["summary"], marks.get("description", ""), ""]
                lines += [f"At `{server}{path}`.", "", *_parameters(marks), ""]
                for status, response in marks["responses"].items():
                    lines += [f"**{status}**: {response['description']}", "", *_examples(response), ""]
    return "\n".join(lines)


def _parameters(marks: Json) -> Iterator[str]:
    rows = [(each["name"], each["required"], each["schema"] | each) for each in marks.get("parameters", ())]
    if body := marks.get("requestBody"):
        schema = body["content"]["application/x-www-form-urlencoded"]["schema"]
        rows += [(name, name in schema["required"], each) for name, each in schema["properties"].items()]
    if not rows:
        yield "No parameters. Send the access token in the header `Authorization`: `Bearer`, a space, the token."
        return
    yield from ("| parameter | required | meaning |", "|---|---|---|")
    for name, is_required, each in rows:
        constant = f"Always `{each['const']}`. " if "const" in each else ""
        yield f"| `{name}` | {'yes' if is_required else 'no'} | {constant}{each.get('description', '')} |"


def _examples(response: Json) -> Iterator[str]:
    content = response.get("content", {}).get("application/json", {})
    if "example" in content:
        yield from ("```json", json.dumps(content["example"], indent=2), "```")
    elif "examples" in content:
        yield from ("| `error` | `error_description` |", "|---|---|")
        for example in content["examples"].values():
            yield f"| `{example['value']['error']}` | {example['value']['error_description']} |"
