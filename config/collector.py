"""Read the variables that configure the collector of traces. Their names are those of OpenTelemetry's SDK."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config import raw_variables

_ENDPOINT = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?", re.ASCII | re.IGNORECASE)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 §5.6.2
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")


def endpoint(name: str, path: str = "") -> str:
    """Return the address for spans: the variable's value followed by `path`, or "" if the variable is not set.

    Raises ImproperlyConfigured: the address is malformed, or the packages that send spans are not installed.
    """
    address = raw_variables.value(name)
    if not address:
        return ""
    try:
        is_address = _ENDPOINT.fullmatch(address) and urlsplit(address).port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ImproperlyConfigured(f"{name} must be an address such as http://127.0.0.1:4318, without a password.")
    try:
        distribution("opentelemetry-exporter-otlp-proto-http")
    except PackageNotFoundError:
        raise ImproperlyConfigured(f"{name} needs the packages of config/requirements/tracing.txt.") from None
    return address.rstrip("/") + path if path else address


def headers(name: str) -> dict[str, str]:
    """Return the headers of each request to the collector. OTLP Exporter Configuration, "Specifying headers".

    The service reads the headers itself, because the SDK would write a malformed header to the log. Raises
    ImproperlyConfigured: a header is malformed.
    """
    found = {}
    for item in filter(None, map(str.strip, raw_variables.value(name).split(","))):
        key, _, value = (part.strip() for part in item.partition("="))
        if not _HEADER_NAME.fullmatch(key) or not _HEADER_VALUE.fullmatch(text := unquote(value)):
            raise ImproperlyConfigured(f"{name} must be name=value, percent-encoded and separated by commas.")
        found[key] = text
    return found
