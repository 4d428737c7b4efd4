"""Send e-mails by SMTP. EMAIL_TIMEOUT limits the whole connection to the server, not each step as in Django. E2."""

from __future__ import annotations

import io
import smtplib
import socket
import time
from typing import Any

from django.core.mail.backends import smtp


class _Bounded(smtplib.SMTP):
    """A connection that ends `timeout` seconds after its start, whatever the server sends."""

    def __init__(self, host: str, port: int, timeout: float, **options: Any) -> None:
        self._end = time.monotonic() + timeout
        super().__init__(host, port, timeout=timeout, **options)

    def connect(self, host: str = "localhost", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        """Connect to the host. Each of its addresses gets an equal share of the time. TLS may take half of this share.

        Raises OSError.
        """
        found = socket.getaddrinfo(host, port or self.default_port, type=socket.SOCK_STREAM)
        for left in range(len(found), 0, -1):
            address = str(found[-left][4][0])
            self.timeout = self.seconds_left() / left / 2
            try:
                return super().connect(address, port or self.default_port, source_address)
            except smtplib.SMTPException:
                raise
            except OSError:
                if left == 1:
                    raise
        raise OSError("the host has no address")

    def send(self, s: Any) -> None:
        self.limit_step()
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            self.file = io.BufferedReader(_Replies(self))
        return super().getreply()

    def starttls(self, *given: Any, **options: Any) -> tuple[int, bytes]:
        self.limit_step()
        return super().starttls(*given, **options)

    def seconds_left(self) -> float:
        """Return the remaining seconds, which are more than 0. Raises SMTPServerDisconnected: no time remains."""
        left = self._end - time.monotonic()
        if left <= 0:  # the socket stays open here, because a reply may still be read from it
            raise smtplib.SMTPServerDisconnected("The conversation took too long.")
        return left

    def limit_step(self) -> None:
        left = self.seconds_left()
        if self.sock:
            self.sock.settimeout(left)


class _BoundedTLS(_Bounded, smtplib.SMTP_SSL):
    pass


class _Replies(io.RawIOBase):
    """The replies of the server. A server that sends single bytes gets no additional time."""

    def __init__(self, server: _Bounded) -> None:
        self._server = server

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._server.limit_step()
        return self._server.sock.recv_into(buffer) if self._server.sock else 0


class EmailBackend(smtp.EmailBackend):
    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return _BoundedTLS if self.use_ssl else _Bounded
