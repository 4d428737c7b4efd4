"""A conversation with the mail server has one bound, begins with our name, and fails with the true reason."""

from __future__ import annotations

import ssl
from pathlib import Path
from smtplib import SMTPException, SMTPNotSupportedError
from typing import Any

import pytest
from django.core.mail import EmailMessage

from accounts.mail.smtp import EmailBackend
from tests.peers import HANGS, MailServer, certificate_for

BOUND = 0.5


def send(server: MailServer, timeout: float = BOUND, **options: Any) -> None:
    backend = EmailBackend(**{"host": "127.0.0.1", **options}, port=server.port, timeout=timeout)  # type: ignore[arg-type]
    backend.send_messages([EmailMessage("Subject", "Text", "from@example.com", ["to@example.com"])])


@pytest.mark.parametrize(("mode", "options"), [(HANGS, {}), (HANGS, {"use_ssl": True}), ("slow", {})])
def test_a_slow_conversation_ends_at_the_bound(mail_server: MailServer, mode: str, options: dict[str, bool]) -> None:
    """Otherwise it would end when the server goes away, or never."""
    if mode == "slow":
        mail_server.step_seconds = BOUND * 0.4  # no single step is too slow
    else:
        mail_server.mode = mode
    with pytest.raises((SMTPException, OSError), match=r"timed out|took too long"):
        send(mail_server, **options)
    assert not mail_server.mails


def test_a_server_that_takes_the_mail_and_forgets_to_say_goodbye_has_taken_it(mail_server: MailServer) -> None:
    mail_server.quit_seconds = 60.0
    send(mail_server, timeout=3)
    assert mail_server.mails[0]["Subject"] == "Subject"


def test_a_server_without_tls_gets_no_mail_where_tls_is_asked_for(mail_server: MailServer) -> None:
    with pytest.raises(SMTPNotSupportedError):
        send(mail_server, timeout=60, use_tls=True)
    assert not mail_server.mails


@pytest.mark.parametrize(
    ("auth_url", "name"),
    [
        ("https://sign-in.example.com", "sign-in.example.com"),
        ("http://192.0.2.1:8000", "[192.0.2.1]"),
        ("https://[2001:db8::1]", "[IPv6:2001:db8::1]"),
    ],
)
def test_the_service_greets_with_the_host_of_its_pages(
    mail_server: MailServer, settings: Any, auth_url: str, name: str
) -> None:
    settings.AUTH_URL = auth_url
    send(mail_server, timeout=60)
    assert mail_server.greetings == [name]


def test_a_certificate_that_is_not_trusted_is_the_error_and_the_close_hides_it_not(
    mail_server: MailServer, tmp_path: Path
) -> None:
    mail_server.certificate = certificate_for(tmp_path, days=2)
    backend = EmailBackend(host="localhost", port=mail_server.port, timeout=60, use_tls=True)
    try:
        with pytest.raises(ssl.SSLCertVerificationError):
            backend.open()
    finally:
        backend.close()
