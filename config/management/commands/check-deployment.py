"""`manage.py check-deployment`: check the settings, database, Redis and mail server, and print problems and fixes."""

from __future__ import annotations

import json
import smtplib
import ssl
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.core import checks
from django.core.mail import get_connection
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from django.utils.module_loading import import_string
from redis import Redis
from redis.exceptions import RedisError

from accounts.mail import smtp
from config import checks as own_checks
from config import environment
from config.infrastructure.network import is_proxy
from config.infrastructure.texts import shown
from oauth_bridge.management import purging

WAIT_SECONDS = 5  # the longest wait for one answer of Redis or of the mail server
PURGED_WITHIN = timedelta(days=1)
STRANGERS = ("198.51.100.9", "2001:db8::9")  # no machine has these addresses (RFC 5737, RFC 3849)
READ = """
    SELECT current_setting('server_version'), current_setting('transaction_read_only'),
           extract(epoch FROM clock_timestamp())::float
"""
# Problem and fix of each error, of which the first type counts, without the server's text, which may name the account.
MAIL_FAULTS: tuple[tuple[type[Exception], str, str], ...] = (
    (smtplib.SMTPAuthenticationError, "does not accept the login", "Are user and password right?"),
    (
        smtplib.SMTPHeloError,
        "refuses the name with which this service greets it",
        "It is the host of AUTH_URL, which must be a full name that the mail server finds in the DNS.",
    ),
    (smtplib.SMTPSenderRefused, "refuses the sender", "Is DEFAULT_FROM_EMAIL an address of this account?"),
    (
        smtplib.SMTPNotSupportedError,
        "offers no TLS or no login here",
        "Use smtp+tls:// (port 587) or smtp+ssl:// (465).",
    ),
    (smtplib.SMTPResponseException, "refuses to talk", "Its log says why. May this machine use it?"),
    (
        ssl.SSLError,
        "has a certificate that is not accepted, or speaks no TLS at this port",
        "smtp+ssl:// is for port 465; for certificates, see docs/operations.md, Your own certificate authority.",
    ),
    (Exception, "does not answer", "Are host and port of EMAIL_URL right, and open from here?"),
)


class Finding(NamedTuple):
    name: str
    status: Literal["ok", "warning", "failed", "skipped"]
    message: str
    fix: str = ""


class Command(BaseCommand):
    help = "Connect to everything that the service uses, and say what is wrong. Run it with its variables, as its user."
    requires_system_checks: list[str] = []  # `variables` runs these checks

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        found = []
        for finding in findings():
            found.append(finding)
            if not as_json:
                line = f"{finding.status:<8} {finding.name}: {finding.message} {finding.fix}"
                self.stdout.write(shown(line.rstrip()))
        has_failed = any(finding.status == "failed" for finding in found)
        if as_json:
            self.stdout.write(json.dumps({"ok": not has_failed, "checks": [each._asdict() for each in found]}))
        if has_failed:
            sys.exit(1)


def findings() -> Iterator[Finding]:
    yield from variables()
    yield proxies()
    yield audit_log()
    yield from database()
    yield from redis()
    yield mail()


def variables() -> list[Finding]:
    found = [each for each in checks.run_checks(include_deployment_checks=True) if not each.is_silenced()]
    return [
        Finding(str(each.id), "failed" if each.is_serious() else "warning", each.msg, each.hint or "Change it.")
        for each in found
    ] or [Finding("settings", "ok", "The variables fit one another.")]


def proxies() -> Finding:
    message = ""
    if any(is_proxy(each) for each in STRANGERS):
        message = "TRUSTED_PROXIES contains addresses of strangers, who can then claim any address."
    elif settings.IS_HTTPS and not settings.TRUSTED_PROXIES:
        message = "TRUSTED_PROXIES does not name the proxy that speaks https: limits count everybody as one."
    if message:
        return Finding("proxies", "failed", message, "Name the addresses of your proxies, and no others.")
    return Finding("proxies", "ok", "The first page of the administration says where your request came from.")


def audit_log() -> Finding:
    handler = {**settings.AUDIT_LOG}
    if not handler:
        return Finding("audit_log", "ok", "Security events are in the log of the service.")
    try:
        import_string(handler.pop("class"))(**handler).open().close()
    except OSError as error:
        message = f"AUDIT_LOG can't be written ({error.strerror}): events are in the log of the service instead."
        fix = "Let the user of the service own the file and its folder, or let syslog listen there."
        return Finding("audit_log", "failed", message, fix)
    return Finding("audit_log", "ok", "Security events can be written to AUDIT_LOG.")


def clock(name: str, whose: str, seconds_ahead: float) -> Finding:
    if abs(seconds_ahead) <= 1:
        return Finding(name, "ok", f"The clocks of {whose} and this machine agree.")
    direction = "ahead of" if seconds_ahead > 0 else "behind"
    message = f"The clock of {whose} is {abs(seconds_ahead):.0f} seconds {direction} that of this machine."
    fix = "Let both machines keep time by NTP (Debian: systemd-timesyncd or chrony)."
    return Finding(name, "failed" if abs(seconds_ahead) > 10 else "warning", message, fix)


# The database ---------------------------------------------------------------------------------------------------------


def database() -> Iterator[Finding]:
    try:
        yield from _sqlite() if connection.vendor == "sqlite" else _postgresql()
        migrations = _of_checks("migrations", own_checks.database_is_migrated, "All migrations are applied.")
        yield migrations
        if migrations.status == "ok":
            yield purge()
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        fix = "Is DATABASE_URL right, does PostgreSQL run there, and may this machine and account connect?"
        yield Finding("database", "failed", f"The database can't be used: {reason}.", fix)


def _of_checks(name: str, check: Callable[..., list[checks.CheckMessage]], ok: str) -> Finding:
    for found in check(None, databases=["default"]):
        return Finding(name, "failed", found.msg, found.hint or "")
    return Finding(name, "ok", ok)


def _sqlite() -> Iterator[Finding]:
    with transaction.atomic():  # the transaction begins with BEGIN IMMEDIATE, which fails on a read-only file
        connection.cursor().execute("CREATE TABLE check_deployment (a)")
        transaction.set_rollback(True)
    yield Finding("database", "ok", "SQLite can be written.")


def _postgresql() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        before = time.time()
        cursor.execute(READ)
        version, is_read_only, now = cursor.fetchone()
    if is_read_only == "on":
        fix = "Name the primary in DATABASE_URL, or several hosts with target_session_attrs=read-write."
        yield Finding("database", "failed", "The database may only be read: it is a standby.", fix)
    else:
        yield Finding("database", "ok", f"PostgreSQL {version} answers.")
    yield _of_checks("database_encoding", own_checks.database_is_utf8, "The database is in UTF-8.")
    yield clock("clock_database", "the database", now - (before + time.time()) / 2)


def purge() -> Finding:
    fix = "Is the timer on (systemctl list-timers)? Run manage.py purge and see what it says."
    finished, now = purging.last_finished(), timezone.now()
    if finished is None:
        begun = MigrationRecorder(connection).migration_qs.order_by("applied").first()
        is_new = begun is None or begun.applied > now - PURGED_WITHIN
        return Finding("purge", "warning" if is_new else "failed", "No purge has finished yet.", fix)
    hours = int((now - finished).total_seconds() // 3600)
    if now - finished > PURGED_WITHIN:
        return Finding("purge", "failed", f"The last purge finished {hours} hours ago.", fix)
    ago = f"{hours} hours ago" if hours else "within the hour"
    return Finding("purge", "ok", f"The last purge finished {ago}.")


# Redis and the mail server --------------------------------------------------------------------------------------------


def redis() -> Iterator[Finding]:
    if not settings.REDIS_URL:
        yield Finding("redis", "skipped", "REDIS_URL is not set; one worker counts the limits in its memory.")
        return
    client = Redis.from_url(settings.REDIS_URL, socket_timeout=WAIT_SECONDS, socket_connect_timeout=WAIT_SECONDS)
    try:
        before = time.time()
        seconds, microseconds = client.time()
        now = (before + time.time()) / 2
        client.set("check-deployment", 1, ex=1)  # fails on a replica, with full memory, or without the permission
        policy = client.info("memory").get("maxmemory_policy", "noeviction")
    except (RedisError, OSError) as error:
        message = f"Redis can't be used ({type(error).__name__}): no limit is counted in it."
        fix = "Is REDIS_URL right, does Redis run there, and may this account write?"
        yield Finding("redis", "failed", message, fix)
        return
    finally:
        client.close()
    if policy != "noeviction":
        message = f"A full Redis deletes keys ({policy}), and the limits that they count begin anew."
        yield Finding("redis", "warning", message, "Set maxmemory-policy noeviction.")
    else:
        yield Finding("redis", "ok", "Redis answers and can be written.")
    yield clock("clock_redis", "Redis", seconds + microseconds / 1e6 - now)


def mail() -> Finding:
    if not settings.EMAIL_HOST:
        fix = "Set EMAIL_URL to a mail server."
        return Finding("mail", "failed" if settings.IS_HTTPS else "warning", "E-mails are written, not sent.", fix)
    server = get_connection(timeout=WAIT_SECONDS)
    try:
        server.open()
        smtp.begin_mail(server.connection)
    except (OSError, smtplib.SMTPException) as error:
        problem, fix = next((problem, fix) for kind, problem, fix in MAIL_FAULTS if isinstance(error, kind))
        details = (getattr(error, name, None) for name in ("smtp_code", "verify_message", "strerror"))
        detail = next(filter(None, details), type(error).__name__)
        return Finding("mail", "failed", f"The mail server {problem} ({detail}).", fix)
    finally:
        with suppress(OSError, smtplib.SMTPException):
            server.close()
    is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    if not is_encrypted and not environment.is_loopback(f"smtp://{settings.EMAIL_HOST}"):
        message = "The mail server answers, but codes, links and its password are sent to it unencrypted."
        return Finding("mail", "warning", message, "Write smtp+tls:// or smtp+ssl:// in EMAIL_URL.")
    login = "accepts the login" if settings.EMAIL_HOST_USER else "needs no login"
    return Finding("mail", "ok", f"The mail server answers and {login}.")
