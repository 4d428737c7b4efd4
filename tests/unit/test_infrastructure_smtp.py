"""A conversation with the mail server has one bound, however slowly and however often the server answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from smtplib import SMTPException
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.mail import EmailMessage

from config.infrastructure import smtp
from config.infrastructure.smtp import EmailBackend
from tests.smtp import DRIPS, HANGS, MailServer

BOUND = 0.5


def send(server: MailServer, timeout: float = BOUND, **options: Any) -> None:
    backend = EmailBackend(host="127.0.0.1", port=server.port, timeout=timeout, **options)  # type: ignore[arg-type]
    backend.send_messages([EmailMessage("Subject", "Text", "from@example.com", ["to@example.com"])])


@pytest.mark.parametrize("tls", ["", "use_tls", "use_ssl"])
@pytest.mark.parametrize("mode", [HANGS, DRIPS, "slow"])
def test_a_slow_conversation_ends_at_the_bound(mail_server: MailServer, mode: str, tls: str) -> None:
    if mode == "slow":
        mail_server.step_seconds = BOUND * 0.4  # no single step is too slow
    else:
        mail_server.mode = mode
    began = time.monotonic()
    with pytest.raises((SMTPException, OSError)):
        send(mail_server, **({tls: True} if tls else {}))
    assert time.monotonic() - began < 2 * BOUND
    assert not mail_server.mails


@pytest.mark.parametrize("steps", range(1, 25))
def test_the_bound_ends_a_conversation_at_any_step(
    mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    def clock() -> Iterator[float]:
        yield from [0.0] * steps
        while True:
            yield 1e6

    monkeypatch.setattr(smtp, "time", SimpleNamespace(monotonic=clock().__next__))
    with suppress(SMTPException):  # the mail was taken, or the next attempt sends it
        send(mail_server, timeout=20)


def test_a_server_that_takes_the_mail_and_forgets_to_say_goodbye_has_taken_it(mail_server: MailServer) -> None:
    mail_server.quit_seconds = 60.0
    send(mail_server)
    assert len(mail_server.mails) == 1


def test_a_server_that_needs_less_than_the_bound_takes_the_mail(mail_server: MailServer) -> None:
    mail_server.step_seconds = 0.05
    send(mail_server, timeout=20)
    assert mail_server.mails[0]["Subject"] == "Subject"


def test_a_host_with_a_dead_address_is_reached_at_another(
    mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]
    real = socket.getaddrinfo

    def look_up(host: str, *given: Any, **options: Any) -> Any:
        return found if host == "mail.example.com" else real(host, *given, **options)

    monkeypatch.setattr(smtp.socket, "getaddrinfo", look_up)
    backend = EmailBackend(host="mail.example.com", port=mail_server.port, timeout=20)
    backend.send_messages([EmailMessage("Subject", "Text", "from@example.com", ["to@example.com"])])
    assert len(mail_server.mails) == 1
