"""The paths of the operations, for code that compares paths before a view is known."""

from __future__ import annotations

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"
USERINFO = "/oauth/userinfo"
MACHINE_PREFIXES = ("/oauth/", "/.well-known/")


def is_for_programs(path: str) -> bool:
    """Whether the path is always answered in JSON. D19."""
    return path.startswith(MACHINE_PREFIXES) and path != AUTHORIZE
