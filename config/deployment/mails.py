"""The checks of the mail server for `manage.py check-deployment`."""

from __future__ import annotations

import smtplib
import socket
import ssl

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from config import environment
from config.deployment.findings import WAIT_SECONDS, Finding, failed, ok, skipped, warning
from config.infrastructure import smtp

SMTP = "config.infrastructure.smtp.EmailBackend"
TEXT = "This mail was sent by manage.py check-deployment. Nobody has to answer it.\n"


def findings(recipient: str = "") -> list[Finding]:
    """Return the findings about the mail server. If `recipient` is given, send one e-mail to it."""
    found = [_server()]
    if recipient:
        is_usable = found[0].status in ("ok", "warning")
        found.append(_sent(recipient) if is_usable else skipped("mail_sent", "The mail server can't be used."))
    return found


def _server() -> Finding:
    if settings.EMAIL_BACKEND != SMTP:
        kind = "to the log, with their codes and links" if "console" in settings.EMAIL_BACKEND else "to files"
        message, fix = f"E-mails are not sent but written {kind}.", "Set EMAIL_URL to a mail server."
        return failed("mail", message, fix) if settings.IS_HTTPS else warning("mail", message, fix)
    server = get_connection(timeout=WAIT_SECONDS)
    try:
        server.open()
        status, _text = server.connection.noop()
        if status != 250:
            raise smtplib.SMTPResponseException(status, "")
        smtp.begin_mail(server.connection)
    except (OSError, smtplib.SMTPException) as error:
        return failed("mail", *_refusal(error))
    finally:
        server.close()
    return _encryption()


def _encryption() -> Finding:
    is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    if not is_encrypted and not environment.is_loopback(f"smtp://{settings.EMAIL_HOST}"):
        message = "The mail server answers, but codes, links and its password are sent to it unencrypted."
        return warning("mail", message, "Write smtp+tls:// or smtp+ssl:// in EMAIL_URL.")
    login = "accepts the login" if settings.EMAIL_HOST_USER else "needs no login"
    return ok("mail", f"The mail server answers and {login}.")


def _sent(recipient: str) -> Finding:
    message = EmailMessage(f"{settings.SERVICE_NAME}: test", TEXT, to=[recipient])
    message.connection = get_connection(timeout=WAIT_SECONDS)
    try:
        message.send()
    except (OSError, smtplib.SMTPException) as error:
        return failed("mail_sent", *_refusal(error))
    return ok("mail_sent", "The mail server has accepted a mail; look whether it arrives.")


def _refusal(error: Exception) -> tuple[str, str]:
    """Return the problem and the fix, without the server's text, which may contain the name of the account."""
    if smtp.code_of(error) == 504:
        message = f"The mail server refuses {smtp.greeting()}, the name with which this service greets it (504)."
        return message, "It is the host of AUTH_URL, which must be a full name that the mail server finds in the DNS."
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"The mail server does not accept the login ({error.smtp_code}).", "Are user and password right?"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return (
            "The mail server offers no TLS or no login here.",
            "Use smtp+tls:// with port 587 or smtp+ssl:// with 465.",
        )
    if isinstance(error, smtplib.SMTPSenderRefused):
        return (
            f"The mail server refuses the sender ({error.smtp_code}).",
            "Is DEFAULT_FROM_EMAIL an address of this account?",
        )
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return (
            f"The mail server refuses the recipient ({smtp.code_of(error)}).",
            "Is the address right, and may this account send to it?",
        )
    if isinstance(error, smtplib.SMTPResponseException):
        return f"The mail server refuses to talk ({error.smtp_code}).", "Its log says why. May this machine use it?"
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "See docs/operations.md, Your own certificate authority, and name the server as its certificate does."
        return f"The certificate of the mail server is not accepted: {error.verify_message}.", fix
    if isinstance(error, ssl.SSLError):
        return "The mail server speaks no TLS at this port.", "smtp+ssl:// is for port 465, smtp+tls:// for 587."
    if isinstance(error, socket.gaierror):
        return "The host of EMAIL_URL has no address.", "Is its name right, and does this machine resolve names?"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"The mail server does not answer ({reason}).", "Are host and port of EMAIL_URL right, and open from here?"
