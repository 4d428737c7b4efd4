"""Read the named blocks of code in the documents, and insert values into a text.

The name of a block follows its language, as in ```python client. Blocks with the same name are joined.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from django.conf import settings

from oauth_bridge.models import Application

NAMED_BLOCK = re.compile(r"^```\w+ ([\w-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The callback address in the guide, which a developer can register unchanged for a trial.
EXAMPLE_CALLBACK = "http://127.0.0.1:8765/callback"


def source(name: str) -> str:
    """Return the Markdown of the document in the repository."""
    return (settings.BASE_DIR / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str = "") -> dict[str, str]:
    """Return the named blocks of the document by name. If `language` is given, other languages are left out."""
    found: dict[str, str] = {}
    for match in NAMED_BLOCK.finditer(source(name)):
        if match[0].startswith(f"```{language}"):
            found[match[1]] = f"{found[match[1]]}\n{match[2]}" if match[1] in found else match[2]
    return found


def fill(text: str, **values: str) -> str:
    """Replace {AUTH_URL}, {BASE_URL} and {SERVICE_NAME} in the text, and {NAME} for each name in `values`."""
    filled = {
        "AUTH_URL": settings.AUTH_URL,
        "BASE_URL": settings.BASE_URL,
        "SERVICE_NAME": settings.SERVICE_NAME or "Sign-in service",
        **values,
    }
    return re.sub(r"\{([A-Z_]+)\}", lambda name: filled.get(name[1], name[0]), text)


def fill_for(text: str, application: Application) -> str:
    """Insert the application's values, but not its secret, into sample code.

    The lines about a secret are removed for a public client.
    """
    callback = (application.callback_addresses or [EXAMPLE_CALLBACK])[0]
    if application.is_public:
        text = "".join(line for line in text.splitlines(keepends=True) if "CLIENT_SECRET" not in line)
    text = text.replace(EXAMPLE_CALLBACK, "{REDIRECT_URI}")
    text = text.replace(quote(EXAMPLE_CALLBACK, safe=""), "{QUOTED_REDIRECT_URI}")
    values = {"REDIRECT_URI": callback, "QUOTED_REDIRECT_URI": quote(callback, safe="")}
    return fill(text, CLIENT_ID=str(application.client_id), **values).strip()
