"""The service with a fault in it, to see what it says of one. Served by a test only."""

from __future__ import annotations

from typing import NoReturn

from config.wsgi import application  # noqa: F401
from oauth_bridge.credentials import code_redemption, codes, tokens


def fail(*_values: object, **_named: object) -> NoReturn:
    raise RuntimeError("a detail that 'nobody' outside may read")


code_redemption.explain = fail
tokens.read = fail
codes.issue = fail
