"""Send the requests of `manage.py check-deployment` to the service, without HTTP proxies or redirects."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from config.deployment.findings import WAIT_SECONDS

MAX_BYTES = 1024 * 1024
ERRORS = (OSError, HTTPException)


class Visit(NamedTuple):
    """The answer to a request, this machine's address on the connection, and the expiry of the server's certificate."""

    status: int
    headers: Message
    body: bytes
    own_address: str
    certificate_ends: datetime | None


def get(url: str, headers: dict[str, str] | None = None) -> Visit:
    """Send a GET request and return the Visit. Raises one of ERRORS: there is no answer."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=WAIT_SECONDS)
    try:
        connection.request("GET", parts.path or "/", headers=headers or {})
        sock = connection.sock
        own_address = str(sock.getsockname()[0])
        ends = _end_of(sock) if isinstance(sock, ssl.SSLSocket) else None
        answer = connection.getresponse()
        return Visit(answer.status, answer.headers, answer.read(MAX_BYTES), own_address, ends)
    finally:
        connection.close()


def _end_of(sock: ssl.SSLSocket) -> datetime:
    certificate = sock.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)


def problem(error: Exception) -> tuple[str, str]:
    """Return the reason why there is no answer, and the fix."""
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "Renew it, or install it with all certificates between it and its authority (fullchain.pem)."
        return f"has a certificate that is not accepted: {error.verify_message}", fix
    if isinstance(error, ssl.SSLError):
        return "speaks no TLS that this machine knows", "Does the proxy listen with ssl at this port?"
    if isinstance(error, socket.gaierror):
        return "has no address", "Is the name right, and is it in the DNS?"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections", "Do the proxy and the service run?"
    if isinstance(error, TimeoutError):
        return f"did not answer within {WAIT_SECONDS} seconds", "Is a firewall on the way, or the service stopped?"
    return f"broke off the conversation ({type(error).__name__})", "Does the proxy run, and is this its port?"
