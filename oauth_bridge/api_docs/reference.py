"""Write the reference and the tables of errors, as Markdown, from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator

from oauth_bridge.api_docs import openapi
from oauth_bridge.api_docs.openapi import Json

INTRODUCTION = """\
# Reference

This page is made from `{BASE_URL}/openapi.json`, which tools can read.

"""


def reference() -> str:
    """Return the parameters, answers and examples of all operations."""
    described = openapi.document()
    sections = [
        "\n".join(_operation(described, path, method))
        for path, operations in described["paths"].items()
        for method in operations
        if method != "servers" and operations[method]["operationId"] not in ("answerConsent", "logoutByPost")
    ]
    return f"{INTRODUCTION}{described['info']['description']}\n{chr(10).join(sections)}"


def errors() -> str:
    """Return the tables of errors, one for each place where they appear."""
    described = openapi.source()
    paths = described["paths"]
    token = paths["/oauth/token"]["post"]
    places = {
        "On a page, before the person comes back": paths["/oauth/authorize"]["get"],
        "At your callback address": described["x-callback"],
        "From `/oauth/token`": token,
        "From `/oauth/userinfo`": paths["/oauth/userinfo"]["get"],
        "On a page of `/oauth/logout`": paths["/oauth/logout"]["get"],
        "From any of them": {**token, "x-faults": ["anywhere"]},
    }
    return "\n".join(line for heading, marks in places.items() for line in _errors(described, heading, marks))


def _errors(described: Json, heading: str, marks: Json) -> Iterator[str]:
    common = [] if marks["x-faults"] == ["anywhere"] else described["x-faults"]["anywhere"]
    rows = [("status", "`error`", "when", "what to do"), ("---",) * 4]
    rows += [
        (str(fault.status), f"`{fault.error}`", problem, fix)
        for fault, problem, fix in openapi.errors_of(described, marks)
        if fault.name not in common
    ]
    first = 1 if marks is described["x-callback"] else 0  # a callback has no status
    yield from (f"### {heading}", "", *(f"| {' | '.join(row[first:])} |" for row in rows), "")


def _operation(described: Json, path: str, method: str) -> Iterator[str]:
    operations = described["paths"][path]
    operation = operations[method]
    server = operations.get("servers", described["servers"])[0]["url"]
    yield from (f"## `{method.upper()} {path}`", "", operation["summary"], operation.get("description", ""), "")
    yield from (f"At `{server}{path}`.", "", *_parameters(operation), "")
    for status, response in operation["responses"].items():
        yield from (f"**{status}**: {response['description']}", "", *_examples(response), "")


def _parameters(operation: Json) -> Iterator[str]:
    rows = [(each, each["required"], each["schema"]) for each in operation.get("parameters", ())]
    if body := operation.get("requestBody"):
        schema = body["content"]["application/x-www-form-urlencoded"]["schema"]
        rows += [
            ({"name": name, **each}, name in schema["required"], each) for name, each in schema["properties"].items()
        ]
    if not rows:
        yield "No parameters. Send the access token in the header `Authorization`: `Bearer`, a space, the token."
        return
    yield from ("| parameter | required | meaning |", "|---|---|---|")
    for each, is_required, schema in rows:
        constant = f"Always `{schema['const']}`. " if "const" in schema else ""
        yield f"| `{each['name']}` | {'yes' if is_required else 'no'} | {constant}{each.get('description', '')} |"


def _examples(response: Json) -> Iterator[str]:
    """Yield the lines of the examples: JSON for a success, a table for errors."""
    content = response.get("content", {}).get("application/json", {})
    if "example" in content:
        yield from ("```json", json.dumps(content["example"], indent=2), "```")
    elif "examples" in content:
        yield from ("| `error` | `error_description` |", "|---|---|")
        for example in content["examples"].values():
            yield f"| `{example['value']['error']}` | {example['value']['error_description']} |"
