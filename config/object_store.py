"""Parse the value of `PICTURES`, which names the store of pictures and logos."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config import raw_variables

FORM = "database or s3://bucket/folder?endpoint=https://host:port&region=name"
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w./-]*)?(\?[^\s#]*)?")
_ENDPOINT = re.compile(r"https?://[^\s/?#@]+/?")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


def storage(value: str) -> dict[str, Any]:
    """Return the entry of `STORAGES`. The value may omit folder, endpoint and region.

    `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` contain the credentials. Without these variables, boto3 searches its
    other sources of credentials.

    Raises ValueError: the value is malformed. Raises ImproperlyConfigured: a package or one of the two credentials is
    missing.
    """
    if value == "database":
        return {"BACKEND": "accounts.pictures.database_storage.DatabaseStorage"}
    if not _BUCKET.fullmatch(value):
        raise ValueError
    parts = urlsplit(value)
    options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    endpoint, region = options.pop("endpoint", None), options.pop("region", None)
    if options or not _ENDPOINT.fullmatch(endpoint or "https://s3") or not _REGION.fullmatch(region or "any"):
        raise ValueError
    if find_spec("storages") is None or find_spec("boto3") is None:
        raise ImproperlyConfigured("PICTURES names an s3 store, which needs the packages of requirements/s3.txt.")
    key, secret = raw_variables.value("AWS_ACCESS_KEY_ID"), raw_variables.value("AWS_SECRET_ACCESS_KEY")
    if bool(key) != bool(secret):
        raise ImproperlyConfigured("Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither of them.")
    return {
        "BACKEND": "accounts.pictures.s3_storage.PictureStorage",
        "OPTIONS": {
            "bucket_name": parts.netloc,
            "location": parts.path.strip("/"),
            "endpoint_url": endpoint,
            "region_name": region,
            "access_key": key or None,
            "secret_key": secret or None,
        },
    }
