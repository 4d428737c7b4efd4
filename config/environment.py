"""Readers of environment variables, one for each kind of value.

A value that cannot be meant stops the start with one sentence that names the variable and never repeats a value that
may hold a password. An empty variable counts as unset.
"""

from __future__ import annotations

import os
import re
import secrets
from email.utils import formataddr, parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from config.infrastructure.postgresql import url as postgresql

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_RATE = re.compile(r"[1-9][0-9]{0,8}/([1-9][0-9]{0,5})?[smhd]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

DEFAULT_EMAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}


def _value(name: str) -> str:
    value = os.environ.get(name, "").strip()
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _stop(name, "text in UTF-8") from None
    return value


def _stop(name: str, must: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} must be {must}.")


def is_set(name: str) -> bool:
    return bool(_value(name))


def text(name: str, default: str) -> str:
    value = _value(name) or default
    if len(value) > 80 or _CONTROL.search(value):
        raise _stop(name, "one line of at most 80 characters")
    return value


def flag(name: str, *, default: bool) -> bool:
    value = _value(name).lower()
    if not value:
        return default
    if value not in _TRUE + _FALSE:
        raise _stop(name, "on or off")
    return value in _TRUE


def number(name: str, *, default: int, largest: int) -> int:
    value = _value(name) or str(default)
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= largest:
        raise _stop(name, f"a whole number from 1 to {largest}")
    return int(value)


def folder(name: str, default: Path) -> Path:
    value = _value(name)
    if not value:
        return default
    if not Path(value).is_absolute():
        raise _stop(name, "the full path of a folder, beginning with a slash")
    return Path(value)


# Addresses -----------------------------------------------------------------------------------------------------------


def _split(name: str, value: str, must: str) -> SplitResult:
    """The parts of an address, with a port that is a number if there is one."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise _stop(name, must) from None
    if re.search(r"\s", value):
        raise _stop(name, must)
    return parts


def origin(name: str, default: str) -> str:
    """Scheme, host and port as browsers spell them: lower case, without the scheme's own port. D1."""
    must = (
        "an origin such as https://auth.example.com: scheme and host, perhaps a port, no path and no slash at the end"
    )
    value = _value(name) or default
    parts = _split(name, value, must)
    if parts.scheme not in ("http", "https") or value.lower() != f"{parts.scheme}://{parts.netloc}".lower():
        raise _stop(name, must)
    host = parts.hostname or ""
    if "@" in parts.netloc or parts.netloc.endswith(":") or parts.port == 0 or not _is_host(host):
        raise _stop(name, must)
    netloc = f"[{host}]" if ":" in host else host
    if parts.port not in (None, 443 if parts.scheme == "https" else 80):
        netloc += f":{parts.port}"
    return f"{parts.scheme}://{netloc}"


def _is_host(host: str) -> bool:
    return _is_address(host) or (bool(_HOST_NAME.fullmatch(host)) and not host.rpartition(".")[2].isdecimal())


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(of_origin: str) -> bool:
    """Whether the origin can be reached from this machine only."""
    host = urlsplit(of_origin).hostname or ""
    if _is_address(host):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def hosts_of(*origins: str) -> list[str]:
    """The hosts of the origins, with every name of this machine when one of them is this machine."""
    names = {
        urlsplit(each).netloc.rpartition("]")[0] + "]" if "[" in each else urlsplit(each).hostname for each in origins
    }
    if any(is_loopback(each) for each in origins):
        names.update(LOOPBACK_NAMES)
    return sorted(name for name in names if name)


def hosts(name: str, default: list[str]) -> list[str]:
    """Host names, comma-separated; `.example.com` stands for the name and all below it."""
    listed = [host.strip().lower() for host in _value(name).split(",") if host.strip()]
    if not all(_is_host(host.removeprefix(".").removeprefix("[").removesuffix("]")) for host in listed):
        raise _stop(name, "host names separated by commas, without scheme, port or path")
    return listed or default


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(each.strip()) for each in _value(name).split(",") if each.strip()]
    except ValueError:
        raise _stop(name, "addresses or networks separated by commas, such as 10.0.0.0/8, 2001:db8::/32") from None


def bind(name: str, default: str) -> str:
    must = "host:port, such as 127.0.0.1:8000"
    value = _value(name) or default
    parts = _split(name, f"//{value}", must)
    if parts.netloc != value or "@" in value or not parts.port or not _is_host((parts.hostname or "").lower()):
        raise _stop(name, must)
    return value


# Services ------------------------------------------------------------------------------------------------------------


def database(name: str, default: Path) -> dict[str, Any]:
    """Django's entry for SQLite or PostgreSQL, with the options the service was measured and tested with."""
    value = _value(name)
    if not value:
        return _sqlite(name, str(default))
    must = f"sqlite:////full/path/of/file or {postgresql.FORM}"
    if value.partition("://")[0].lower() in ("postgres", "postgresql"):
        try:
            return postgresql.entry(value)
        except ValueError as error:
            raise _stop(name, f"{must}{error}") from None
    parts = _split(name, value, must) if value != "sqlite://:memory:" else urlsplit("sqlite:///:memory:")
    if parts.scheme != "sqlite" or parts.netloc or parts.query:
        raise _stop(name, must)
    return _sqlite(name, unquote(parts.path[1:]) or ":memory:")


def _sqlite(name: str, path: str) -> dict[str, Any]:
    """A writer waits for its turn at BEGIN, where the time-out counts, and readers never wait for it."""
    if path != ":memory:":
        if Path(path).is_dir():
            raise _stop(name, f"a file, and {path} is a folder")
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ImproperlyConfigured(f"{name}: the folder of {path} cannot be made ({error.strerror}).") from None
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 10,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def redis(name: str) -> str:
    must = "redis://host:port/number, rediss://host:port/number or unix:///path/of/socket"
    value = _value(name)
    if not value:
        return ""
    parts = _split(name, value, must)
    place = parts.path if parts.scheme == "unix" else parts.hostname
    if parts.scheme not in ("redis", "rediss", "unix") or not place or parts.query:
        raise _stop(name, must)
    if parts.scheme != "unix" and not re.fullmatch(r"(/[0-9]*)?", parts.path):
        raise _stop(name, must)
    return value


def cache(redis_url: str) -> dict[str, Any]:
    """Where limits are counted: Redis, so that all workers agree, or the memory of the one process. D21."""
    if redis_url:
        return {
            "BACKEND": "config.infrastructure.cache.FailOpenRedisCache",
            "LOCATION": [redis_url],
            "KEY_PREFIX": "delegated",
        }
    return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}


def email(name: str, default: Path) -> dict[str, Any]:
    """Django's `EMAIL_…` settings. Letters go to files by default: on a console, reset links would be in the log."""
    must = "smtp://, smtp+tls:// or smtp+ssl://user:password@host:port, filemail:///folder or consolemail://"
    parts = _split(name, _value(name) or "filemail:///default", must)
    is_smtp = parts.scheme in ("smtp", "smtp+tls", "smtp+ssl")
    if parts.query or not (is_smtp or parts.scheme in ("consolemail", "filemail")) or is_smtp != bool(parts.hostname):
        raise _stop(name, must)
    if (parts.scheme == "filemail") != (len(parts.path.strip("/")) > 0):
        raise _stop(name, must)
    settings: dict[str, Any] = environ.Env.email_url_config(parts.geturl())
    settings = {"EMAIL_USE_TLS": False, "EMAIL_USE_SSL": False, **{key: each or "" for key, each in settings.items()}}
    settings["EMAIL_PORT"] = settings["EMAIL_PORT"] or DEFAULT_EMAIL_PORTS.get(parts.scheme, 25)
    if parts.scheme == "filemail":
        # The library takes the path as relative, but a folder that moves with the working directory helps nobody.
        settings["EMAIL_FILE_PATH"] = "/" + unquote(parts.path).lstrip("/") if is_set(name) else str(default)
    return settings


def sender(name: str, service_name: str, of_origin: str) -> str:
    """Whom letters come from: an address, or `Name <address>`."""
    host = urlsplit(of_origin).hostname or ""
    value = _value(name) or formataddr((service_name, f"no-reply@{'localhost' if _is_address(host) else host}"))
    account, _, domain = parseaddr(value)[1].rpartition("@")
    if not account or not _is_host(domain.lower()) or _CONTROL.search(value):
        raise _stop(name, "an e-mail address, or a name with the address in angle brackets")
    return value


# Secrets and limits --------------------------------------------------------------------------------------------------


def secret_key(name: str, path: Path) -> str:
    """The variable, or a key generated once and kept beside the database for development."""
    if value := _value(name):
        return value
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_new_key(path)
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name} is not set, and a generated key cannot be kept in {path} ({error.strerror})."
        ) from None


def _keep_new_key(path: Path) -> None:
    """Makes the file whole or not at all, so that processes starting together agree on one key."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(64))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def rates(switch: str, **defaults: str) -> dict[str, str]:
    """Limit name → "N/period", each from its `RATE_…` variable; empty when the switch is off. D21."""
    for name in os.environ:
        if name.startswith("RATE_") and name not in defaults and name != switch:
            raise ImproperlyConfigured(f"{name} is not a limit of this service; there are {', '.join(defaults)}.")
    found = {name: _value(name) or default for name, default in defaults.items()}
    for name, rate in found.items():
        if not _RATE.fullmatch(rate):
            raise _stop(name, "a number and a period, such as 600/m or 10/15m (s, m, h, d)")
    value = _value(switch).lower() or "on"
    if value not in ("on", "off"):
        raise _stop(switch, "on or off")
    return {name.removeprefix("RATE_").lower(): rate for name, rate in found.items()} if value == "on" else {}
