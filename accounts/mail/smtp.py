"""A subclass of Django's SMTP backend. Its timeout limits the whole conversation, instead of each step."""

from __future__ import annotations

import smtplib
import ssl
import time
from email.utils import parseaddr
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail.backends import smtp

from config.infrastructure.network import is_ip_address


def greeting() -> str:
    """Return the name with which this service greets the mail server: the host of AUTH_URL. RFC 5321 §4.1.1.1."""
    host = urlsplit(settings.AUTH_URL).hostname or ""
    if not is_ip_address(host):
        return host
    return f"[IPv6:{host}]" if ":" in host else f"[{host}]"


def code_of(error: Exception) -> int | None:
    """Return the SMTP code of the mail server's refusal, or None if the error has no code."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return next(iter(error.recipients.values()))[0]
    return getattr(error, "smtp_code", None)


def begin_mail(connection: smtplib.SMTP) -> None:
    """Check that the server accepts greeting and sender, without sending an e-mail. Raises SMTPException."""
    sender = parseaddr(settings.DEFAULT_FROM_EMAIL)[1]
    connection.ehlo_or_helo_if_needed()
    # Most servers judge the greeting only when they get sender and recipient. A refusal of the recipient is no error.
    code, _text = connection.mail(sender)
    if code != 504 and code >= 400:
        raise smtplib.SMTPSenderRefused(code, b"", sender)
    if 504 in (code, connection.rcpt(sender)[0]):
        raise smtplib.SMTPHeloError(504, "")
    connection.rset()


class _Bounded(smtplib.SMTP):
    _end = 0.0

    def send(self, s: Any) -> None:
        self._limit_step()
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        self._limit_step()
        return super().getreply()

    def _limit_step(self) -> None:
        self._end = self._end or time.monotonic() + self.timeout
        left = self._end - time.monotonic()
        if left <= 0:
            raise smtplib.SMTPServerDisconnected("The conversation took too long.")
        if self.sock and self.sock.fileno() >= 0:
            self.sock.settimeout(left)


class _BoundedTLS(_Bounded, smtplib.SMTP_SSL):
    pass


class EmailBackend(smtp.EmailBackend):
    def open(self) -> bool:
        if self.connection:
            return False
        tls = ssl.create_default_context()
        options: Any = {"local_hostname": greeting(), "timeout": self.timeout}
        if self.use_ssl:
            connection: smtplib.SMTP = _BoundedTLS(self.host, self.port, context=tls, **options)
        else:
            connection = _Bounded(self.host, self.port, **options)
        try:
            if self.use_tls:
                connection.starttls(context=tls)
            if self.username and self.password:
                connection.login(self.username, self.password)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        return True
