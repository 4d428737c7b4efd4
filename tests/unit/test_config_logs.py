"""What a line of the log holds, and what it never does (D15)."""

from __future__ import annotations

import io
import json
import logging
import sys
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client, RequestFactory

from config import logs
from config.http.middleware import proxy_ids
from config.infrastructure import network


def formatted(**attributes: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "oauth_bridge", "levelname": "ERROR", "msg": "it broke", **attributes})
    text = logs.JsonFormatter().format(record)
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def test_a_line_names_its_request() -> None:
    token = network.reference.set("abc123")
    line = formatted(client_id="x", attempt=2, request=object(), extra={"code": "x"})
    network.reference.reset(token)
    del line["time"]
    expected = {"level": "error", "logger": "oauth_bridge", "message": "it broke", "reference": "abc123"}
    assert line == {**expected, "client_id": "x", "attempt": 2}, "objects are not written"


def test_an_exception_is_told_without_the_values_it_was_about_and_with_names_of_constraints() -> None:
    try:
        try:
            int("hidden-token")
        except ValueError as error:
            text = 'violates "accounts_user_email" for "Hidden1"\nDETAIL:  Key (digest)=(hidden) exists.'
            raise RuntimeError(text) from error
    except RuntimeError:
        line = formatted(exc_info=sys.exc_info())
    outer, inner = line["exception"]
    assert (outer["type"], outer["text"]) == ("builtins.RuntimeError", 'violates "accounts_user_email" for …')
    assert (inner["type"], inner["text"]) == ("builtins.ValueError", "invalid literal for int() with base 10: …")
    assert outer["frames"][0].startswith("tests/unit/test_config_logs.py:")
    assert "hidden" not in json.dumps(line).lower()


def test_gunicorn_does_not_quote_the_request_and_a_silent_client_is_no_error() -> None:
    for message, error, level in (
        ("Invalid request from ip=::1: Invalid line: 'GET /?code=hidden'", None, "INFO"),
        ("Error handling request GET /hidden", None, "ERROR"),
        ("Socket error", BlockingIOError(11, "a"), "INFO"),
        ("Socket error", OSError(28, "a"), "ERROR"),
    ):
        record = logging.makeLogRecord({"levelname": "ERROR", "msg": message, "exc_info": (OSError, error, None)})
        assert logs.GunicornFilter().filter(record)
        assert "hidden" not in record.getMessage()
        assert record.levelname == level


def test_loggers_that_print_addresses_codes_or_tokens_are_silent_and_ours_write_json_on_standard_error(
    log_output: io.StringIO,
) -> None:
    names = "django.request django.server django.security.csrf django.security.DisallowedHost django.db.backends "
    names += "oauthlib.oauth2.rfc6749.endpoints.token oauth2_provider.views.base gunicorn.access"
    for name in names.split():
        for level in (logging.DEBUG, logging.WARNING, logging.CRITICAL):
            logging.getLogger(name).log(level, f"{name}: hidden", exc_info=ValueError("hidden"))
    logging.getLogger("oauth_bridge.codes").info("a code was replayed", extra={"age_seconds": 3})
    assert json.loads(log_output.getvalue())["age_seconds"] == 3


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.django_db
def test_the_line_of_the_request_has_the_well_formed_ids_of_a_trusted_proxy(
    client: Client, rf: RequestFactory, settings: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "config.access")
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]
    ids = {"HTTP_X_REQUEST_ID": "a1-B2", "HTTP_TRACEPARENT": TRACEPARENT}
    client.get("/health/live", **ids)
    [line] = [vars(record) for record in caplog.records if record.name == "config.access"]
    assert line.items() >= {"request_id": "a1-B2", "trace_id": TRACE, "parent_id": PARENT}.items()
    for stranger in ({"REMOTE_ADDR": "203.0.113.7", "HTTP_X_FORWARDED_FOR": "127.0.0.1"}, {"REMOTE_ADDR": ""}):
        assert proxy_ids(rf.get("/", **ids, **stranger)) == {}
    for name, texts in (
        ("HTTP_X_REQUEST_ID", ("x" * 65, 'a"b', "a\nb", "ä")),
        ("HTTP_TRACEPARENT", (f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", TRACEPARENT.upper())),
    ):
        assert [text for text in texts if proxy_ids(rf.get("/", **{name: text}))] == []  # type: ignore[arg-type]
    assert proxy_ids(rf.get("/", HTTP_TRACEPARENT=f"01-{TRACE}-{PARENT}-01-more"))["trace_id"] == TRACE
