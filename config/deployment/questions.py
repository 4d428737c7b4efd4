"""The question of `manage.py check-deployment` how its request arrives, and the answer of the running service.

Question and answer are sealed under a key derived from SECRET_KEY, and the answer is bound to its question. So an
answer that the command can read proves that this installation has answered. A stranger cannot make a question or read
an answer. A request without a valid question gets 404, as for a path that does not exist. A stranger who repeats a
question within VALID_SECONDS gets an answer, but cannot read it.
"""

from __future__ import annotations

import base64
import binascii
import json
import resource
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, JsonResponse

from config.infrastructure import sealing
from config.infrastructure.network import client_address

PATH = "/health/deployment"
HEADER = "X-Deployment-Check"
QUESTION, ANSWER = "deployment check question", "deployment check answer"
VALID_SECONDS = 60
MAX_LENGTH = 200  # characters of a question
LONGEST_SHOWN = 300  # characters of a header that the answer repeats
CGROUPS = Path("/sys/fs/cgroup")


def ask() -> str:
    """Return a new question. The command sends the question in the header HEADER."""
    return base64.b64encode(sealing.seal(QUESTION, str(int(time.time())).encode())).decode()


def read_answer(question: str, body: bytes) -> dict[str, Any] | None:
    """Return the content of the answer, or None if it is from another installation or for another question."""
    try:
        sealed = base64.b64decode(json.loads(body)["answer"], validate=True)
    except (ValueError, KeyError, TypeError):
        return None
    content = sealing.unseal(ANSWER, sealed, question.encode())
    if content is None:
        return None
    said: dict[str, Any] = json.loads(content)
    return {**said, "has_same_key": sealing.is_under_first_key(ANSWER, sealed, question.encode())}


def answer(request: HttpRequest) -> JsonResponse:
    """Answer a question. Raises Http404: the question is from another installation or too old."""
    question = request.headers.get(HEADER, "")
    if not _is_valid(question):
        raise Http404
    facts = {
        "host": request.META.get("HTTP_HOST", "")[:LONGEST_SHOWN],
        "peer": request.META.get("REMOTE_ADDR", ""),
        "forwarded": request.META.get("HTTP_X_FORWARDED_FOR", "")[:LONGEST_SHOWN],
        "address": client_address(request),
        "version": settings.VERSION,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "memory_mb": memory_limit_mb(),
    }
    sealed = sealing.seal(ANSWER, json.dumps(facts).encode(), question.encode())
    return JsonResponse({"answer": base64.b64encode(sealed).decode()})


def _is_valid(question: str) -> bool:
    if not 0 < len(question) <= MAX_LENGTH:
        return False
    try:
        content = sealing.unseal(QUESTION, base64.b64decode(question, validate=True))
    except (binascii.Error, ValueError):
        return False
    return content is not None and abs(time.time() - int(content)) <= VALID_SECONDS


def memory_limit_mb() -> int | None:
    """Return the smallest memory limit of the control groups (version 2) of this process, or None without a limit."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::")[2].strip().lstrip("/")
    except OSError:
        return None
    found = []
    for group in (own_group := CGROUPS / own, *own_group.parents):
        if group.is_relative_to(CGROUPS):
            try:
                found.append(int((group / "memory.max").read_text(encoding="ascii")) // 1024**2)
            except (OSError, ValueError):  # the file does not exist or contains "max"
                continue
    return min(found, default=None)
