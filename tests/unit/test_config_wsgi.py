"""What gunicorn serves: two handlers, one for pages and one for machines."""

from __future__ import annotations

from django.conf import settings

from config import wsgi


def names(handler) -> str:
    """The chain of middleware, outermost first."""
    found, link = [], handler._middleware_chain
    while link is not None:
        inner = getattr(link, "__wrapped__", link)
        found.append(type(inner).__name__)
        link = getattr(inner, "get_response", None)
    return " ".join(found)


def test_machine_paths_pass_no_middleware_that_reads_or_sets_cookies():
    passed = names(wsgi.machines)
    for name in ("Session", "CsrfView", "Message", "Authentication", "WhiteNoise"):
        assert f"{name}Middleware" in names(wsgi.pages)
        assert f"{name}Middleware" not in passed
    for path in settings.MACHINE_MIDDLEWARE:
        assert path.rpartition(".")[2] in passed
    assert settings.MIDDLEWARE[: len(settings.MACHINE_MIDDLEWARE)] == settings.MACHINE_MIDDLEWARE
