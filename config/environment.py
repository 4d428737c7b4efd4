"""Functions that read environment variables, one for each kind of value.

If a value is malformed, the service does not start and prints a sentence that names the variable. The sentence repeats
no value that may contain a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formataddr, parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from config import raw_variables
from config.infrastructure.hosts import LOOPBACK_HOSTS, ascii_forms, is_host, is_ip_address

BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
LOOPBACK_NAMES = [f"[{host}]" if ":" in host else host for host in LOOPBACK_HOSTS]
WEB_PORTS = {"http": 80, "https": 443}
EMAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}

PRINTABLE = r"[^\x00-\x1f\x7f]"
RATE = r"[1-9][0-9]{0,8}/([1-9][0-9]{0,5})?[smhd]"


@contextmanager
def _must_be(name: str, form: str, *, has_hosts: bool = False) -> Iterator[None]:
    """Turn a ValueError into an ImproperlyConfigured that names the variable and the required form.

    With `has_hosts`, the value contains hosts and no password. If a host is not in ASCII, name its ASCII form instead.
    """
    try:
        yield
    except ValueError:
        forms = ascii_forms(raw_variables.value(name)) if has_hosts else {}
        if forms:
            written = ", ".join(f"{ascii_form} for {host}" for host, ascii_form in forms.items())
            raise ImproperlyConfigured(f"{name} must have its hosts in ASCII: write {written}.") from None
        raise ImproperlyConfigured(f"{name} must be {form}.") from None


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


def _match(pattern: str, value: str) -> str:
    _require(re.fullmatch(pattern, value))
    return value


def _value(name: str, default: object = "") -> str:
    value = raw_variables.value(name)
    value.encode()  # raises UnicodeEncodeError, a ValueError, for bytes that are not UTF-8
    return value or str(default)


def text(name: str, default: str) -> str:
    with _must_be(name, "one line of at most 80 characters"):
        return _match(f"{PRINTABLE}{{1,80}}", _value(name, default))


def boolean(name: str, *, default: bool) -> bool:
    with _must_be(name, "on or off"):
        value = _value(name, default).lower()
        _require(value in BOOLEANS)
        return BOOLEANS[value]


def choice(name: str, *allowed: str) -> str:
    with _must_be(name, f"{', '.join(allowed[:-1])} or {allowed[-1]}"):
        _require((value := _value(name, allowed[0]).lower()) in allowed)
        return value


def number(name: str, *, default: int, largest: int) -> int:
    with _must_be(name, f"a whole number from 1 to {largest}"):
        value = int(_match(r"[0-9]{1,9}", _value(name, default)))
        _require(1 <= value <= largest)
        return value


def _is_host(host: str) -> bool:
    """Return whether the text is a host without an underscore. Django refuses underscores in a Host header."""
    return is_host(host) and "_" not in host


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    """Return the host (an IPv6 address in brackets) and the port. Raises ValueError: the text is anything else."""
    parts = urlsplit(f"//{netloc}")
    name, port = parts.hostname or "", parts.port
    host = f"[{name}]" if ":" in name else name
    _require(_is_host(name) and port != 0)
    _require(netloc.lower() == (host if port is None else f"{host}:{port}"))
    return host, port


def origin(name: str, default: str) -> str:
    """Return the origin as browsers write it: in lower case, without the scheme's default port. D1."""
    with _must_be(
        name,
        "an origin such as https://auth.example.com: scheme and host, perhaps a port, no path and no slash at the end",
        has_hosts=True,
    ):
        scheme, _, netloc = _value(name, default).lower().partition("://")
        _require(scheme in WEB_PORTS)
        host, port = _host_and_port(netloc)
        return f"{scheme}://{host}" if port in (None, WEB_PORTS[scheme]) else f"{scheme}://{host}:{port}"


def link(name: str) -> str:
    """Return the https address of a page on another site, or an empty text if the variable is not set."""
    with _must_be(
        name, "an https address in ASCII such as https://example.com/privacy, of at most 500 characters", has_hosts=True
    ):
        value = _value(name)
        if value:
            _require_link(value)
            _require(urlsplit(value).scheme == "https")
        return value


def support(name: str) -> str:
    """Return the address for help (https, http on this machine, or mailto), or "" if the variable is not set."""
    wanted = "an https address, an http address of this machine, or mailto: and an e-mail address"
    with _must_be(name, f"{wanted}, of at most 500 characters", has_hosts=True):
        value = _value(name)
        if value.startswith("mailto:"):
            _require(len(value) <= 500 and re.fullmatch(r"mailto:[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+", value) is not None)
        elif value:
            _require_link(value)
            scheme = urlsplit(value).scheme
            _require(scheme == "https" or (scheme == "http" and is_loopback(value)))
        return value


def _require_link(value: str) -> None:
    _require(len(value) <= 500 and value.isascii() and value.isprintable() and " " not in value)
    _host_and_port(urlsplit(value).netloc.lower())


def is_loopback(origin: str) -> bool:
    """Return whether the origin is on the loopback interface, which only this machine can reach."""
    host = urlsplit(origin).hostname or ""
    if is_ip_address(host):
        return ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def hosts_of(*origins: str) -> list[str]:
    """Return the hosts of the origins. If an origin is on the loopback interface, add all loopback names."""
    names = {_host_and_port(urlsplit(each).netloc)[0] for each in origins}
    if any(is_loopback(each) for each in origins):
        names.update(LOOPBACK_NAMES)
    return sorted(names)


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def hosts(name: str, default: list[str]) -> list[str]:
    """Read host names that are separated by commas. `.example.com` matches the name and its subdomains."""
    with _must_be(name, "host names separated by commas, without scheme, port or path", has_hosts=True):
        names = _items(_value(name).lower())
        _require(all(_is_host(each.removeprefix(".").removeprefix("[").removesuffix("]")) for each in names))
        return names or default


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    with _must_be(name, "addresses or networks separated by commas, such as 10.0.0.0/8, 2001:db8::/32"):
        return [ip_network(each) for each in _items(_value(name))]


def bind(name: str, default: str) -> str:
    with _must_be(name, "host:port, such as 127.0.0.1:8000", has_hosts=True):
        value = _value(name, default)
        _require(_host_and_port(value)[1])
        return value


def audit_log(name: str) -> dict[str, Any]:
    """Return the logging handler of security events, or an empty dict if they go to the service's log."""
    with _must_be(
        name, "log, file:///full/path, syslog: for that of this machine, or syslog://host:port", has_hosts=True
    ):
        value = _value(name, "log")
        scheme, _, rest = value.partition(":")
        if scheme == "file":
            return {"class": "config.audit_log.FileHandler", "path": unquote(_match(r"//(/[^?#]*[^/?#])", rest)[2:])}
        if scheme == "syslog" and rest:
            host, port = _host_and_port(rest.removeprefix("//").lower())
            _require(rest.startswith("//") and port)
            return {"class": "config.audit_log.SyslogHandler", "host": host.strip("[]"), "port": port}
        _require(value in ("log", "syslog:"))
        return {} if value == "log" else {"class": "config.audit_log.SyslogHandler"}


def bind_or_none(name: str, taken: str) -> str:
    """Return an address as `bind` does, or "" if the variable is not set. The address must differ from `taken`."""
    value = bind(name, "") if raw_variables.is_set(name) else ""
    if value == taken:
        raise ImproperlyConfigured(f"{name} must differ from BIND, which is {taken}: give it a port of its own.")
    return value


# Services ------------------------------------------------------------------------------------------------------------


def database(name: str, default: Path) -> dict[str, Any]:
    """Return the entry of `DATABASES` for SQLite or PostgreSQL. The tests use the same options."""
    form = "sqlite:////full/path/of/file or postgres://user:password@host:port/name"
    with _must_be(name, form):
        value = _value(name, f"sqlite:///{quote(str(default))}")
        if not _value(name):
            with suppress(OSError):  # `_sqlite` says so
                private_folder(default.parent)
        if value.partition("://")[0].lower() not in ("postgres", "postgresql"):
            path = _match(r"(?i:sqlite)://(:memory:|/[^\s?#]*)", value)[len("sqlite://") :].removeprefix("/")
            return _sqlite(name, unquote(path) or ":memory:")
    try:
        from config.infrastructure.postgresql.url import entry

        return entry(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be {form}{error}.") from None


def private_folder(path: Path) -> None:
    """Make the folder. Only this user may enter it, so nobody else reads a file in it."""
    path.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # another user's folder
        path.chmod(0o700)


def _sqlite(name: str, path: str) -> dict[str, Any]:
    """Return the entry for SQLite. Writers wait at BEGIN, where the time-out applies. No reader waits for a writer."""
    if path != ":memory:":
        if Path(path).is_dir():
            raise ImproperlyConfigured(f"{name} must be a file, and {path} is a folder.")
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
            "timeout": 10,  # seconds
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def redis(name: str) -> str:
    """Return the URL, or "" if it is not set. django-environ would accept a URL without a host or with any option."""
    with _must_be(name, "redis://host:port/number, rediss://host:port/number or unix:///path/of/socket"):
        value = _match(r"(?i)|rediss?://[^\s/?#]+(/[0-9]*)?|unix://[^\s/?#]*/[^\s?#]+", _value(name))
        parts = urlsplit(value)
        _require(parts.port != 0 and (parts.hostname or parts.scheme in ("", "unix")))
        return value


def email(name: str, default: Path) -> dict[str, Any]:
    """Return Django's `EMAIL_…` settings. By default, e-mails go to files, because no log may contain reset links."""
    form = "smtp://, smtp+tls:// or smtp+ssl://user:password@host:port, filemail:///folder or consolemail://"
    with _must_be(name, form):
        value = _value(name, f"filemail://{quote(str(default))}")
        _match(r"(?i)smtp(\+tls|\+ssl)?://[^\s/?#]+/*|filemail:///+[^\s/?#][^\s?#]*|consolemail:///*", value)
        parts = urlsplit(value)
        _require(parts.port != 0 and (parts.hostname or parts.scheme not in EMAIL_PORTS))
        read = environ.Env.email_url_config(value)
    settings = {"EMAIL_USE_TLS": False, "EMAIL_USE_SSL": False, **{key: each or "" for key, each in read.items()}}
    settings["EMAIL_PORT"] = settings["EMAIL_PORT"] or EMAIL_PORTS.get(parts.scheme, 25)
    if parts.scheme in EMAIL_PORTS:
        settings["EMAIL_BACKEND"] = "config.infrastructure.smtp.EmailBackend"
    if not _value(name):
        with suppress(OSError):  # nothing is written unless an e-mail is sent
            private_folder(default.parent)
    if parts.scheme == "filemail":  # django-environ returns a relative path
        settings["EMAIL_FILE_PATH"] = "/" + unquote(parts.path).lstrip("/")
    return settings


def sender(name: str, service_name: str, origin: str) -> str:
    """Return the sender of e-mails: an address, or `Name <address>`."""
    host = urlsplit(origin).hostname or ""
    default = formataddr((service_name, f"no-reply@{'localhost' if is_ip_address(host) else host}"))
    with _must_be(name, "an e-mail address, or a name with the address in angle brackets", has_hosts=True):
        value = _match(f"{PRINTABLE}+", _value(name, default))
        account, _, domain = parseaddr(value)[1].rpartition("@")
        _require(account and _is_host(domain.lower()))
        return value


# Secrets and limits --------------------------------------------------------------------------------------------------


def secret_key(name: str, path: Path) -> str:
    """Return the variable or, for development, a key that is generated once and kept in the file at `path`."""
    with _must_be(name, "text in UTF-8"):
        if value := _value(name):
            return value
    try:
        private_folder(path.parent)
        if not path.exists():
            raw_variables.write_new_key(path)
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name} is not set, and a generated key cannot be kept in {path} ({error.strerror})."
        ) from None


def secret_keys(name: str) -> list[str]:
    """Read former secret keys that are separated by commas."""
    with _must_be(name, "text in UTF-8"):
        return _items(_value(name))


def rates(switch: str, **defaults: str) -> dict[str, str]:
    """Return "N/period" for each limit name, from its `RATE_…` variable, or an empty dict if `switch` is off. D21."""
    for name in os.environ:
        if name.startswith("RATE_") and name not in defaults and name != switch:
            raise ImproperlyConfigured(f"{name} is not a limit of this service; there are {', '.join(defaults)}.")
    found = {}
    for name, default in defaults.items():
        with _must_be(name, "a number and a period, such as 600/m or 10/15m (s, m, h, d)"):
            found[name.removeprefix("RATE_").lower()] = _match(RATE, _value(name, default))
    with _must_be(switch, "on or off"):
        return found if _match("on|off", _value(switch, "on").lower()) == "on" else {}
