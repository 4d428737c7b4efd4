"""Functions that read environment variables. A wrong value raises ImproperlyConfigured. No error shows a password."""

from __future__ import annotations

import difflib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formataddr, parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config.infrastructure.network import LOOPBACK_HOSTS, is_host, is_ip_address

SECRET = frozenset({"SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATABASE_URL", "REDIS_URL", "EMAIL_URL"})
FILE = "_FILE"  # NAME_FILE may be the path of a file with the secret NAME: platforms mount secrets as files
ALIKE = 0.87  # difflib's ratio of similar names. No two of our names are so similar.
# The variables that Kubernetes adds for a service. Group 1 is the name of the service.
INJECTED = re.compile(r"(.+?)_(SERVICE_(HOST|PORT\w*)|PORT(_[0-9]\w*)?)")

BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
WEB_PORTS = {"http": 80, "https": 443}
EMAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
EMAIL_BACKENDS = {
    "consolemail": "django.core.mail.backends.console.EmailBackend",
    "filemail": "django.core.mail.backends.filebased.EmailBackend",
}

_known: set[str] = set()


def raw(name: str) -> str:
    """Return the stripped value, or "". If NAME is in SECRET, NAME_FILE may be the path of a file with the value."""
    _known.update((name, name + FILE) if name in SECRET else (name,))
    value = os.environ.get(name, "").strip()
    path = os.environ.get(name + FILE, "").strip() if name in SECRET else ""
    if value and path:
        raise ImproperlyConfigured(f"{name} and {name}{FILE} are both set. Set one of them.")
    if path:
        reason: str | None = "it is empty"
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", "it is no text in UTF-8")
        if not value:
            raise ImproperlyConfigured(f"{name}{FILE} must be the path of a file that can be read ({reason}).")
    return value


def refuse_unknown() -> None:
    """Raise ImproperlyConfigured if a variable that was not read seems to be for this service. Call this last."""
    for name in sorted(set(os.environ) - _known):
        injected = INJECTED.fullmatch(name)
        if injected and f"{injected[1]}_SERVICE_HOST" in os.environ:
            continue
        wrong = f"{name} is not a variable of this service"
        if name.removesuffix(FILE) in _known:
            raise ImproperlyConfigured(f"{wrong}: only secrets are read from files.")
        if name.startswith("RATE_"):
            raise ImproperlyConfigured(f"{wrong}. Its limits are in docs/operations.md.")
        meant = difflib.get_close_matches(name, _known, 1, ALIKE)
        if meant and not raw(meant[0]):
            raise ImproperlyConfigured(f"{wrong}. Is {meant[0]} meant?")


@contextmanager
def _value(name: str, default: str, form: str) -> Iterator[str]:
    """Yield the value or `default`. If the `with` block raises ValueError, raise an error with the expected `form`."""
    value = raw(name)
    try:
        value.encode()  # raises UnicodeEncodeError, a ValueError, for bytes that are not UTF-8
        yield value or default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be {form}.") from None


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


def _match(pattern: str, value: str) -> str:
    _require(re.fullmatch(pattern, value))
    return value


def text(name: str, default: str) -> str:
    with _value(name, default, "one line of at most 80 characters") as value:
        return _match(r"[^\x00-\x1f\x7f]{1,80}", value)


def boolean(name: str, default: str) -> bool:
    with _value(name, default, "on or off") as value:
        _require(value.lower() in BOOLEANS)
        return BOOLEANS[value.lower()]


def choice(name: str, default: str, *, allowed: str) -> str:
    with _value(name, default, f"one of {allowed}") as value:
        _require(value.lower() in allowed.split(", "))
        return value.lower()


def number(name: str, default: str, *, largest: int) -> int:
    with _value(name, default, f"a whole number from 1 to {largest}") as value:
        _require(1 <= int(_match(r"[0-9]{1,9}", value)) <= largest)
        return int(value)


# Hosts and origins ---------------------------------------------------------------------------------------------------


def _is_host(host: str) -> bool:
    return is_host(host) and "_" not in host  # which Django refuses in a Host header


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    """Return the host (IPv6: in brackets) and the port or None. Raises ValueError if `netloc` is malformed."""
    parts = urlsplit(f"//{netloc}")
    name, port = parts.hostname or "", parts.port
    host = f"[{name}]" if ":" in name else name
    _require(_is_host(name) and port != 0)
    _require(netloc.lower() == (host if port is None else f"{host}:{port}"))
    return host, port


def origin(name: str, default: str) -> str:
    """Return the origin in lower case, without the scheme's default port."""
    form = "an origin such as https://auth.example.com: scheme and host in ASCII, perhaps a port, no path, no slash"
    with _value(name, default, form) as value:
        scheme, _, netloc = value.lower().partition("://")
        _require(scheme in WEB_PORTS)
        host, port = _host_and_port(netloc)
        return f"{scheme}://{host}" if port in (None, WEB_PORTS[scheme]) else f"{scheme}://{host}:{port}"


def link(name: str, default: str, *, is_support: bool = False) -> str:
    """Return an https address or `default`. `is_support` also allows mailto: and an http address of this machine."""
    form = "an https address in ASCII such as https://example.com/privacy, of at most 500 characters"
    form += ", an http address of this machine, or mailto: and an e-mail address" if is_support else ""
    with _value(name, default, form) as value:
        mailto = re.fullmatch(r"mailto:[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,255}", value)
        if value and not (is_support and mailto):
            _require(re.fullmatch(r"(?i)(?=.{1,500}$)https?://[!-~]+", value))
            _require(value[:5].lower() == "https" or (is_support and is_loopback(value)))
            _host_and_port(urlsplit(value).netloc.lower())
        return value


def is_loopback(origin: str) -> bool:
    """Return whether only this machine can reach the origin."""
    host = urlsplit(origin).hostname or ""
    if is_ip_address(host):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def hosts_of(*origins: str) -> str:
    """Return the origins' hosts, separated by commas. If an origin has a loopback host, add LOOPBACK_HOSTS."""
    names = {_host_and_port(urlsplit(each).netloc)[0] for each in origins}
    if any(is_loopback(each) for each in origins):
        names.update(f"[{host}]" if ":" in host else host for host in LOOPBACK_HOSTS)
    return ",".join(sorted(names))


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def hosts(name: str, default: str) -> list[str]:
    """Return the hosts for ALLOWED_HOSTS. There, `.example.com` means example.com and its subdomains."""
    with _value(name, default, "host names in ASCII separated by commas, without scheme, port or path") as value:
        names = _items(value.lower())
        _require(names and all(_is_host(each.removeprefix(".").removeprefix("[").removesuffix("]")) for each in names))
        return names


def networks(name: str, default: str) -> list[IPv4Network | IPv6Network]:
    with _value(name, default, "addresses or networks separated by commas, such as 10.0.0.0/8, 2001:db8::/32") as value:
        return [ip_network(each) for each in _items(value)]


def bind(name: str, default: str, *, taken: str = "") -> str:
    with _value(name, default, "host:port, such as 127.0.0.1:8000; BIND and METRICS_BIND must differ") as value:
        _require(not value or (_host_and_port(value)[1] and value != taken))
        return value


def audit_log(name: str, default: str) -> dict[str, Any]:
    """Return the options of a logging handler for security events, or {} if the events go to the service's log."""
    form = "log, file:///full/path, syslog: for that of this machine, or syslog://host:port"
    with _value(name, default, form) as value:
        parts = re.fullmatch(r"log|syslog:|file://(/[^?#]*[^/?#])|syslog://(.+)", value)
        _require(parts)
        path, target = parts.groups() if parts else ("", "")
        handler = {"class": "config.logs.AuditHandler"}
        if path:
            return {**handler, "path": unquote(path)}
        if target:
            host, port = _host_and_port(target.lower())
            _require(port)
            return {**handler, "host": host.strip("[]"), "port": port}
        return {} if value == "log" else handler


# Services ------------------------------------------------------------------------------------------------------------


def database(name: str, default: str) -> dict[str, Any]:
    """Return an entry for `DATABASES`. If the folder of an SQLite file is missing, make the folder."""
    form = "sqlite:////full/path/of/file or postgres://user:password@host:port/name"
    with _value(name, default, form) as value:
        if value.partition("://")[0].lower() in ("postgres", "postgresql"):
            from config.infrastructure.sql.base import database_of

            try:
                return database_of(value)
            except ValueError as error:
                raise ImproperlyConfigured(f"{name} must be {form}{error}.") from None
        path = unquote(_match(r"(?i:sqlite)://(:memory:|/[^\s?#]*)", value)[len("sqlite://") :].removeprefix("/"))
        if path not in ("", ":memory:"):
            private_folder(folder := Path(path).parent)
            if not folder.is_dir():
                raise ImproperlyConfigured(f"{name}: there is no folder {folder}, and it cannot be made.")
            _require(not Path(path).is_dir())
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path or ":memory:",
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",  # writers wait at BEGIN
                "timeout": 10,  # seconds
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }


def redis(name: str, default: str) -> str:
    """Return the URL or `default`. Refuse a URL with a query. Unless the scheme is unix, refuse a URL without host."""
    form = "redis://host:port/number, rediss://host:port/number or unix:///path/of/socket"
    with _value(name, default, form) as value:
        parts = urlsplit(_match(r"(?i)|rediss?://[^\s/?#]+(/[0-9]*)?|unix://[^\s/?#]*/[^\s?#]+", value))
        _require(parts.port != 0 and (parts.hostname or parts.scheme in ("", "unix")))
        return value


def redis_options() -> dict[str, Any]:
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError
    from redis.retry import Retry

    # Repeat a call once, because Redis may have closed an idle connection. After a time-out, do not repeat it.
    retry = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
    return {"socket_timeout": 0.25, "socket_connect_timeout": 0.25, "retry": retry}  # seconds


def email(name: str, default: str) -> dict[str, Any]:
    form = "smtp://, smtp+tls:// or smtp+ssl://user:password@host:port, filemail:///folder or consolemail://"
    with _value(name, default, form) as value:
        _match(r"(?i)smtp(\+tls|\+ssl)?://[^\s/?#]+/*|filemail:///+[^\s/?#][^\s?#]*|consolemail:///*", value)
        parts = urlsplit(value)
        _require(parts.port != 0)
        _require(is_host((parts.hostname or "").removesuffix(".")) or parts.scheme not in EMAIL_PORTS)
        return {
            "EMAIL_BACKEND": EMAIL_BACKENDS.get(parts.scheme, "accounts.mail.smtp.EmailBackend"),
            "EMAIL_FILE_PATH": "/" + unquote(parts.path).lstrip("/"),
            "EMAIL_HOST": parts.hostname or "",
            "EMAIL_PORT": parts.port or EMAIL_PORTS.get(parts.scheme, 25),
            "EMAIL_HOST_USER": unquote(parts.username or ""),
            "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
            "EMAIL_USE_SSL": parts.scheme == "smtp+ssl",
        }


def sender(name: str, default: str) -> str:
    with _value(name, default, "an e-mail address in ASCII, or a name with the address in angle brackets") as value:
        account, _, domain = parseaddr(_match(r"[^\x00-\x1f\x7f]+", value))[1].rpartition("@")
        _require(account and _is_host(domain.lower()))
        return value


def no_reply(name: str, origin: str) -> str:
    host = urlsplit(origin).hostname or ""
    return formataddr((name, f"no-reply@{'localhost' if is_ip_address(host) else host}"))


# Secrets and limits --------------------------------------------------------------------------------------------------


def secret_keys(name: str, default: str) -> list[str]:
    with _value(name, default, "text in UTF-8") as value:
        return _items(value)


def secret_key(name: str, default: str, *, path: Path) -> str:
    """Return the key. If the variable is unset, use the key in the file `path`. Generate this file if it is missing."""
    with _value(name, default, "text in UTF-8") as value:
        if value:
            return value
    try:
        if not path.exists():
            with tempfile.NamedTemporaryFile("w", dir=path.parent) as draft:  # with mode 0600
                draft.write(secrets.token_urlsafe(64))
                draft.flush()
                with suppress(FileExistsError):  # another process was faster
                    os.link(draft.name, path)
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"SECRET_KEY is not set, and a generated key cannot be kept in {path} ({error.strerror})."
        ) from None


def private_folder(path: Path) -> None:
    with suppress(OSError):  # what needs the folder says why it is missing
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


def rates(switch: str, **defaults: str) -> dict[str, str]:
    """Return rates such as {"token": "600/m"} for RATE_TOKEN. Return {} if the variable `switch` is off."""
    found = {}
    for name, default in defaults.items():
        with _value(name, default, "a number and a period, such as 600/m or 10/15m (s, m, h, d)") as value:
            found[name.removeprefix("RATE_").lower()] = _match(r"[1-9][0-9]{0,8}/([1-9][0-9]{0,5})?[smhd]", value)
    return found if choice(switch, "on", allowed="on, off") == "on" else {}
