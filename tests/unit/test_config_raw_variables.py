"""Secrets in files, and names that are almost those of variables."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import raw_variables
from tests.unit.test_config_environment import READ_VARIABLES, settings_with


@pytest.mark.parametrize("name", sorted(raw_variables.SECRET))
def test_a_secret_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    urls = {"DATABASE_URL": "sqlite:///:memory:", "REDIS_URL": "redis://cache", "EMAIL_URL": "smtp://mail.example.com"}
    value, file = urls.get(name, "käse-" * 12), tmp_path / "secret"
    file.write_text(f"\n{value} \n", encoding="utf-8")
    made = settings_with(monkeypatch, **{f"{name}_FILE": str(file)})
    monkeypatch.delenv(f"{name}_FILE")
    compared = ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATABASES", "REDIS_URL", "EMAIL_HOST", "IS_SECRET_KEY_GENERATED")
    asked = settings_with(monkeypatch, **{name: value})
    assert [made[each] for each in compared] == [asked[each] for each in compared]


def test_a_file_without_a_secret_and_a_secret_beside_its_file_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = [str(tmp_path / "missing"), ".", "\x7f", "x" * 5000]
    for number, content in enumerate((b"", b" \n", b"x" * (64 * 1024 + 1), b"hidden \xff")):
        (tmp_path / str(number)).write_bytes(content)
        paths.append(str(tmp_path / str(number)))
    sentence = r"SECRET_KEY_FILE must be the path of a file .*\.|SECRET_KEY must be text in UTF-8\."
    for path in paths:
        with pytest.raises(ImproperlyConfigured, match=rf"^({sentence})$"):
            settings_with(monkeypatch, SECRET_KEY_FILE=path)
    with pytest.raises(ImproperlyConfigured, match=r"^SECRET_KEY and SECRET_KEY_FILE are both set\.") as refusal:
        settings_with(monkeypatch, SECRET_KEY="hidden", SECRET_KEY_FILE=str(tmp_path / "0"))
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize("name", ["DATABASE_URI", "TRUSTED_PROXYS", "SIGNUP", "SECRET_KEYS", "MEDIA_ROOT_FILE"])
def test_a_name_that_is_almost_one_of_ours_stops_the_start(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} is not a variable of this service") as refusal:
        settings_with(monkeypatch, **{name: "hidden", "DATABASE_URL": ""})
    assert "hidden" not in str(refusal.value)


def test_other_names_are_left_alone_and_no_variable_of_ours_is_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = "REDIS_TLS_URL WEB_SERVICE_HOST SERVICE_PORT SECRET PGHOST HOSTNAME SSL_CERT_FILE "
    others += "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT OTEL_EXPORTER_OTLP_TIMEOUT "
    others += "PICTURES MEDIA_ROOT MEDIA_ROOT_FILE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SECRET_ACCESS_KEY_FILE"
    settings_with(monkeypatch, **dict.fromkeys(others.split(), "x"))
    for name in READ_VARIABLES:
        assert not difflib.get_close_matches(name, READ_VARIABLES - {name}, 1, raw_variables.ALIKE)
