"""Write the reference and the tables of errors, as Markdown, from the OpenAPI document and the faults."""

from __future__ import annotations

import json
from collections.abc import Iterator

from config.infrastructure.errors import Fault
from oauth_bridge.openapi import components, document, error_responses
from oauth_bridge.openapi.components import Json

INTRODUCTION = """\
# Reference

This page is made from `{BASE_URL}/openapi.json`, which tools can read.

"""
# Each place where errors appear: its heading, the operation whose example values are used, and the errors.
PLACES = (
    ("On a page, before the person comes back", "authorize", error_responses.AUTHORIZE),
    ("At your callback address", "callback", error_responses.CALLBACK),
    ("From `/oauth/token`", "token", error_responses.TOKEN),
    ("From `/oauth/userinfo`", "userinfo", error_responses.USERINFO),
    ("On a page of `/oauth/logout`", "logout", error_responses.LOGOUT),
    ("From any of them", "token", error_responses.ANYWHERE),
)


def reference() -> str:
    """Return the parameters, answers and examples of all operations."""
    described = document.document()
    sections = [
        _operation(described, path, method)
        for path, operations in described["paths"].items()
        for method in operations
        if method != "servers" and operations[method]["operationId"] not in ("answerConsent", "logoutByPost")
    ]
    return f"{INTRODUCTION}{described['info']['description']}\n{chr(10).join(sections)}"


def errors() -> str:
    """Return the tables of errors, one for each place."""
    return "\n".join(_faults(heading, operation, faults) for heading, operation, faults in PLACES)


def _faults(heading: str, operation: str, faults: tuple[Fault, ...]) -> str:
    common = () if faults == error_responses.ANYWHERE else error_responses.ANYWHERE
    rows = [("status", "`error`", "when", "what to do"), ("---",) * 4]
    rows += [
        (str(fault.status), f"`{fault.error}`", *components.example_sentences(fault, operation))
        for fault in faults
        if fault not in common
    ]
    first = 1 if operation == "callback" else 0  # a callback has no status
    return "\n".join([f"### {heading}", "", *(f"| {' | '.join(row[first:])} |" for row in rows), ""])


def _operation(described: Json, path: str, method: str) -> str:
    operations = described["paths"][path]
    operation = operations[method]
    server = operations.get("servers", described["servers"])[0]["url"]
    lines = [
        f"## `{method.upper()} {path}`",
        "",
        operation["summary"],
        operation.get("description", ""),
        "",
        f"At `{server}{path}`.",
        "",
        *_parameters(operation),
        "",
    ]
    for status, response in sorted(operation["responses"].items()):
        lines += [f"**{status}**: {response['description']}", "", *_examples(described, response), ""]
    return "\n".join(lines)


def _parameters(operation: Json) -> Iterator[str]:
    rows = [
        (each["name"], each["required"], each["description"], each["schema"])
        for each in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        schema = body["content"]["application/x-www-form-urlencoded"]["schema"]
        rows += [
            (name, name in schema["required"], each.get("description", ""), each)
            for name, each in schema["properties"].items()
        ]
    if not rows:
        yield "No parameters. Send the access token in the header `Authorization`: `Bearer`, a space, the token."
        return
    yield from ("| parameter | required | meaning |", "|---|---|---|")
    for name, is_required, description, schema in rows:
        constant = f"Always `{schema['const']}`. " if "const" in schema else ""
        yield f"| `{name}` | {'yes' if is_required else 'no'} | {constant}{description} |"


def _examples(described: Json, response: Json) -> Iterator[str]:
    """Yield the lines of the examples: JSON for a success, a table for errors."""
    content = response.get("content", {}).get("application/json", {})
    if "example" in content:
        yield from ("```json", json.dumps(content["example"], indent=2), "```")
    elif "examples" in content:
        yield from ("| `error` | `error_description` |", "|---|---|")
        for example in content["examples"].values():
            yield f"| `{example['value']['error']}` | {example['value']['error_description']} |"
