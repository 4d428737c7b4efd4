"""The checks of AUTH_URL and BASE_URL, through the proxy and TLS, for `manage.py check-deployment`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from config.deployment import proxies, questions, visits
from config.deployment.findings import Finding, failed, ok, skipped, warning
from config.infrastructure import paths

FEW_DAYS = timedelta(days=14)
# The largest number of requests in one check: liveness, discovery, two questions, and one by http.
WAITS = 5


def findings(name: str, url: str, own_address: str = "") -> list[Finding]:
    """Return the findings about `url`. `own_address` is the public address of a machine behind NAT, or empty."""
    try:
        live = visits.get(f"{url}/health/live")
        found = _serves(name, f"{url}/health/live", live) or _announces(name, url)
        if found:
            return [found]
        question = questions.ask()
        asked = visits.get(f"{url}{questions.PATH}", {questions.HEADER: question})
        said = questions.read_answer(question, asked.body)
        if said is None:
            return [_stranger(name, url)]
        forged_question = questions.ask()
        headers = {questions.HEADER: forged_question, "X-Forwarded-For": proxies.FORGED}
        forged = questions.read_answer(forged_question, visits.get(f"{url}{questions.PATH}", headers).body) or said
    except visits.ERRORS as error:
        problem, fix = visits.problem(error)
        return [failed(name, f"{url} {problem}.", fix)]
    return [
        ok(name, f"{url} is answered by this installation."),
        _certificate(name, url, live.certificate_ends),
        _plain_http(name, url),
        _host(name, url, said),
        proxies.finding(f"{name}_proxy", url, said, forged, own_address or live.own_address),
        *_process(name, said),
    ]


def _serves(name: str, url: str, live: visits.Visit) -> Finding | None:
    """Return a failure if the answer to a request for `url` is not 200. `/health/live` takes any host."""
    if live.status == 200:
        return None
    fix = "Does the proxy forward this host to the service, with the header Host as it came (Host $http_host)?"
    if live.status in (301, 302, 307, 308):
        fix = f"Let the proxy forward {urlsplit(url).path} to the service, and not redirect it."
    elif live.status == 400:
        fix = "The log of the service has the line `host not served` if it is the host: see ALLOWED_HOSTS. " + fix
    elif live.status in (502, 503, 504):
        fix = "The proxy does not reach the service: does it run, at the address that the proxy has?"
    return failed(name, f"{url} answers {live.status}, not 200.", fix)


def _announces(name: str, url: str) -> Finding | None:
    """Return a failure if the OpenID Connect discovery document does not name BASE_URL as the issuer. Contract I1."""
    answer = visits.get(f"{url}{paths.OPENID_CONFIGURATION}")
    if found := _serves(name, f"{url}{paths.OPENID_CONFIGURATION}", answer):
        return found
    try:
        issuer = json.loads(answer.body)["issuer"]
    except (ValueError, KeyError, TypeError):
        issuer = None
    if issuer == settings.BASE_URL:
        return None
    message = f"{url}{paths.OPENID_CONFIGURATION} does not announce {settings.BASE_URL}."
    fix = "Restart the service after a change of BASE_URL, and let the proxy forward every path of this host to it."
    return failed(name, message, fix)


def _stranger(name: str, url: str) -> Finding:
    fix = (
        "Give this command the SECRET_KEY of the running service, restart the service after a change or an upgrade, "
        "and see where the name and the proxy lead. The clocks must agree to the minute."
    )
    return failed(name, f"{url} answers, but it is not this installation.", fix)


def _certificate(name: str, url: str, ends: datetime | None) -> Finding:
    name = f"{name}_certificate"
    if ends is None:
        return skipped(name, f"{url} has no TLS.")
    days = (ends - timezone.now()).days
    message = f"The certificate of {url} is valid until {ends:%Y-%m-%d}, for {days} days."
    if ends - timezone.now() < FEW_DAYS:
        return warning(name, message, "Renew it now, and see why that did not happen by itself.")
    return ok(name, message)


def _plain_http(name: str, url: str) -> Finding:
    """Check that http redirects to https and that nothing else is served without encryption."""
    name, parts = f"{name}_http", urlsplit(url)
    if parts.scheme != "https" or parts.port:
        return skipped(name, "Only an https address without a port has one for http beside it.")
    try:
        answer = visits.get(f"http://{parts.netloc}/health/live")
    except visits.ERRORS:
        return ok(name, f"Nothing answers at http://{parts.netloc}.")
    location = answer.headers.get("Location", "")
    if answer.status in (301, 302, 307, 308) and location.startswith(f"{url}/"):
        return ok(name, f"http://{parts.netloc} redirects to https.")
    message = f"http://{parts.netloc} answers {answer.status} and does not redirect to {url}."
    return failed(name, message, "Let the proxy answer port 80 with `return 301 https://$host$request_uri;`.")


def _host(name: str, url: str, said: dict[str, Any]) -> Finding:
    name, expected = f"{name}_host", urlsplit(url).netloc
    if str(said["host"]).lower() == expected:
        return ok(name, "The proxy passes the host on as it came.")
    message = f"The service is told the host {said['host']}, not {expected}."
    return failed(name, message, "In nginx: proxy_set_header Host $http_host; ($host loses the port).")


def _process(name: str, said: dict[str, Any]) -> list[Finding]:
    """Return the findings about the process that answered. BASE_URL and AUTH_URL may lead to different machines."""
    return [_release(f"{name}_release", said), _limits(f"{name}_limits", said)]


def _release(name: str, said: dict[str, Any]) -> Finding:
    fix = "Restart the service."
    if not said["has_same_key"]:
        return warning(name, "The running service has another SECRET_KEY than this command, or a former one.", fix)
    if said["version"] != settings.VERSION:
        message = f"The running service is version {said['version']}, and this command {settings.VERSION}."
        return warning(name, message, fix)
    return ok(name, f"Version {settings.VERSION} runs.")


LEAST_FILES = 1024
PICTURES_MB, WORKER_MB = 1000, 130  # see "Watching it" in docs/operations.md


def _limits(name: str, said: dict[str, Any]) -> Finding:
    needed = PICTURES_MB + settings.WEB_CONCURRENCY * WORKER_MB
    files, memory = said["files"], said["memory_mb"]
    if 0 <= files < LEAST_FILES:
        message = f"A process of the service may open {files} files, so it takes fewer connections than it could."
        return warning(name, message, "In the unit: LimitNOFILE=4096.")
    if memory is not None and memory < needed:
        message = f"The service may use {memory:,} MB of memory, and its workers and one picture need {needed:,} MB."
        return warning(name, message, "Raise MemoryMax of the unit or the container, or run fewer workers.")
    return ok(name, "The limits of files and memory are wide enough.")
