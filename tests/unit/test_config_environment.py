"""Each variable of the operator's interface: what it takes, what stops a start, logo and colour."""

from __future__ import annotations

import difflib
import os
import re
import stat
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from config import branding
from config import environment as env
from config.branding import WHITE, contrast

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "config" / "settings.py"
CODE = compile(SETTINGS.read_text(), str(SETTINGS), "exec")

# The values of each variable, separated by white space, unless they contain some.
MALFORMED: dict[str, str | tuple[str, ...]] = {
    "BASE_URL": "https://api.example.com/ https://api.example.com/v1 ftp://api.example.com api.example.com "
    "https://bücher.example https://user:pw@api.example.com https://api.example.com:99999 https://1.2.3.999",
    "AUTH_URL": "https:// https://auth.example.com#top",
    "ALLOWED_HOSTS": "https://api.example.com * api.example.com:443",
    "TRUSTED_PROXIES": "10.0.0.1/8 proxy.example.com",
    "BIND": "8000 127.0.0.1 127.0.0.1:0 unix:/run/service.sock 127.0.0.1:8000/path",
    "METRICS_BIND": "9100 127.0.0.1:8000",  # the last is BIND's
    "WEB_CONCURRENCY": "0 two ²",
    "WEB_THREADS": "0",
    "ACTIVITY_DAYS": "366",
    "STAFF_SECOND_FACTOR": "perhaps",
    "SIGN_UP": "on",
    "DEBUG": "perhaps",
    "DATABASE_URL": "mysql://user:hidden@host/name postgres://user:hidden@host:port/name postgres://user:hidden@host "
    "postgres://user:hidden@first:5432,second:port/name sqlite://host/name sqlite:////tmp "
    f"postgres://user:hidden@host/name?unknown=1 postgres://user:hid@den@host/name sqlite:///{__file__}/db.sqlite3 "
    "postgres://user:hidden@host/name?prepare_threshold=never postgres://user:hid%ffden@host/name "
    "postgres://user:12/hidden@host/name postgres://user:hidden@host/folder/name",
    "REDIS_URL": "http://localhost:6379 redis://localhost:6379/zero redis:// redis://127.0.0.1:6379/0?bogus=1",
    "EMAIL_URL": "pop3://mail.example.com smtp:// smtp://a.nl:many filemail:// smtp://a.nl?a=b smtp://mail%20server",
    "DEFAULT_FROM_EMAIL": ("nobody", "Service <no-reply@>"),
    "SERVICE_NAME": ("x" * 81, "two\nlines"),
    "ENVIRONMENT": ("x" * 81,),
    "SERVICE_LOGO": "logo.svg /nowhere/hidden.svg",
    "SERVICE_COLOR": "green 0d5a4d #fff #0d5a4g #0d5a4d;} rgb(1,2,3)",
    "SUPPORT_URL": "http://example.com/help javascript://localhost/%0aalert(1) mailto:nobody mailto:a@b.nl?subject=x",
    "PRIVACY_URL": "http://example.com/privacy javascript:alert(1) https://",
    "TERMS_URL": ("/terms", "https://example.com/a b", f"https://example.com/{'x' * 500}"),
    "AUDIT_LOG": "syslog syslog://logs.example.com syslog://logs.example.com:514/x file://audit.log file:///var/log/",
    "SECRET_KEY": "",
    "SECRET_KEY_FALLBACKS": "",  # free text
    "RATE_LIMITS": "true",
    "RATE_TOKEN": "600 0/m 600/minute",
    "RATE_SIGN_IN_ACCOUNT": "10/15",
    "RATE_TOKENS": "600/m",
}


def settings_with(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, object]:
    for name in list(os.environ):
        if name.removesuffix("_FILE") in READ_VARIABLES or name.startswith("RATE_"):
            monkeypatch.delenv(name)
    if "DATABASE_URL_FILE" not in variables:
        monkeypatch.setenv("DATABASE_URL", "sqlite:///:memory:")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "config.limits_and_lifetimes", raising=False)
    namespace: dict[str, object] = {"__file__": str(SETTINGS), "__name__": "settings_of_a_test"}
    exec(CODE, namespace)
    return namespace


def use_settings(settings: Any, made: dict[str, object]) -> None:
    for name in filter(str.isupper, made):
        if getattr(settings, name) != made[name]:
            setattr(settings, name, made[name])


TEXT = "".join((ROOT / "config" / name).read_text() for name in ("settings.py", "limits_and_lifetimes.py"))
READ_VARIABLES = {
    *re.findall(r'(?:env|branding)\.\w+\(\s*"([A-Z_]+)"', TEXT),
    *re.findall(r"^    (RATE_[A-Z_]+)=", TEXT, re.MULTILINE),
}


@pytest.mark.parametrize("name", sorted(MALFORMED.keys() | {each for each in READ_VARIABLES if each[:5] != "RATE_"}))
def test_a_malformed_value_is_refused_by_a_sentence_with_its_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    values = MALFORMED[name]  # each variable has an entry
    for value in values.split() if isinstance(values, str) else values:
        with monkeypatch.context() as patch, pytest.raises(ImproperlyConfigured) as refusal:
            settings_with(patch, **{name: value})
        assert re.fullmatch(rf"{name}\b.*\.", str(refusal.value)), value
        assert not re.search("hidden|codec", str(refusal.value)), value


def test_unset_and_empty_variables_have_the_documented_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    unset: dict[str, Any] = settings_with(monkeypatch)
    expected = {
        "BASE_URL": "http://localhost:8000",
        "METRICS_BIND": "",
        "DEBUG": False,
        "EMAIL_BACKEND": "django.core.mail.backends.filebased.EmailBackend",  # never to the log
        "EMAIL_FILE_PATH": str(ROOT / "var" / "mail"),
    }
    assert {name: unset[name] for name in expected} == expected
    empty = settings_with(monkeypatch, **dict.fromkeys(READ_VARIABLES - {"DATABASE_URL"}, ""))
    assert {name: empty[name] for name in expected} == expected
    assert empty["RATES"] == unset["RATES"]  # the values: tests/project/test_documents.py
    changed = dict.fromkeys(("userinfo", "revoke", "introspect"), "5/10s")
    assert settings_with(monkeypatch, RATE_USERINFO="5/10s")["RATES"] == unset["RATES"] | changed


NETWORKS = [ip_network(each) for each in ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")]
LOOPBACK = ["127.0.0.1", "[::1]", "localhost"]


def test_a_variable_becomes_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, expected in (
        ("AUTH_URL", "HTTPS://Auth.Example.COM:443", {"AUTH_URL": "https://auth.example.com"}),
        ("AUTH_URL", "http://[::1]:443", {"AUTH_URL": "http://[::1]:443"}),
        ("BASE_URL", "https://a.nl:8443", {"ALLOWED_HOSTS": ["a.nl"], "SECURE_HSTS_SECONDS": 31_536_000}),
        ("BASE_URL", "http://127.0.0.1:9000", {"ALLOWED_HOSTS": LOOPBACK, "SECURE_HSTS_SECONDS": 0}),
        ("ALLOWED_HOSTS", "A.nl, .b.nl, [::1], 10.0.0.7", {"ALLOWED_HOSTS": ["a.nl", ".b.nl", "[::1]", "10.0.0.7"]}),
        ("METRICS_BIND", "[::1]:9100", {"METRICS_BIND": "[::1]:9100"}),
        ("TRUSTED_PROXIES", "127.0.0.1, 10.0.0.0/8,2001:db8::/32", {"TRUSTED_PROXIES": NETWORKS}),
        ("SUPPORT_URL", "mailto:help@example.com", {"SUPPORT_URL": "mailto:help@example.com"}),
        ("SECRET_KEY_FALLBACKS", " one , two,", {"SECRET_KEY_FALLBACKS": ["one", "two"]}),
        ("RATE_LIMITS", "off", {"RATES": {}}),
        ("EMAIL_URL", "smtp://a.nl", {"EMAIL_BACKEND": "accounts.mail.smtp.EmailBackend", "EMAIL_PORT": 25}),
        ("EMAIL_URL", "smtp+tls://u:p%40@a.nl", {"EMAIL_USE_TLS": True, "EMAIL_HOST_PASSWORD": "p@"}),
        ("EMAIL_URL", "smtp+ssl://a.nl:4650", {"EMAIL_HOST": "a.nl", "EMAIL_PORT": 4650, "EMAIL_USE_SSL": True}),
        ("EMAIL_URL", "consolemail://", {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}),
        ("EMAIL_URL", "filemail:////var/letters", {"EMAIL_FILE_PATH": "/var/letters"}),
        ("AUDIT_LOG", "file:///a%20b", {"AUDIT_LOG": {"class": "config.logs.AuditHandler", "path": "/a b"}}),
        (
            "AUDIT_LOG",
            "syslog://[::1]:9",
            {"AUDIT_LOG": {"class": "config.logs.AuditHandler", "host": "::1", "port": 9}},
        ),
        ("AUTH_URL", "https://a.nl", {"DEFAULT_FROM_EMAIL": "Delegated Sign-In <no-reply@a.nl>"}),
    ):
        with monkeypatch.context() as patch:
            assert settings_with(patch, **{name: value}).items() >= expected.items()


def test_a_database_is_found_as_libpq_finds_it_and_sqlite_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(url: str) -> Any:
        monkeypatch.setenv("DATABASE_URL", url)
        return env.database("DATABASE_URL", "")

    for hosts, host, port in (
        ("", "", ""),
        ("[2001:db8::1]:5433", "2001:db8::1", "5433"),
        ("service:p%40ss@a.example,b.example:5433", "a.example,b.example", ",5433"),
        ("service:p%40ss@%2Frun%2Fpostgresql", "/run/postgresql", ""),
        ("//run/postgresql", "/run/postgresql", ""),
    ):
        found = entry(f"postgres://{hosts}/service?target_session_attrs=read-write")
        assert (found["HOST"], found["PORT"], found["NAME"]) == (host, port, "service")
        assert (found["USER"], found["PASSWORD"]) == (("service", "p@ss") if "@" in hosts else ("", ""))
        assert found["OPTIONS"].items() >= {"target_session_attrs": "read-write", "prepare_threshold": 5}.items()
    found = entry("postgres://service@db.example.com/service?prepare_threshold=none")
    assert (found["OPTIONS"]["prepare_threshold"], found["DISABLE_SERVER_SIDE_CURSORS"]) == (None, True)
    found = entry("sqlite:////tmp/with%20space+plus.sqlite3")
    assert (found["NAME"], found["OPTIONS"]["transaction_mode"]) == ("/tmp/with space+plus.sqlite3", "IMMEDIATE")


@pytest.mark.django_db
def test_every_page_links_to_privacy_and_terms_and_an_error_page_to_help(client: Client, settings: Any) -> None:
    page = client.get("/nothing", HTTP_ACCEPT="text/html").text
    assert not [each for each in ("Privacy", "Get help") if each in page]
    settings.PRIVACY_URL, settings.TERMS_URL = "https://example.com/privacy?a=1&b=2", "https://example.com/terms"
    settings.SUPPORT_URL = "mailto:help@example.com"
    for path, has_help in (("/accounts/sign-in", False), ("/nothing", True)):
        page = client.get(path, HTTP_ACCEPT="text/html").content
        for address in (b"https://example.com/privacy?a=1&amp;b=2", b"https://example.com/terms"):
            assert b'<a href="%s" rel="noopener noreferrer external">' % address in page
        assert (b'<a href="mailto:help@example.com"' in page) is has_help


def test_a_generated_key_is_kept_and_is_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    folder = tmp_path / "var"
    env.private_folder(folder)
    key = env.secret_key("SECRET_KEY", "", path=folder / "secret-key")
    assert len(key) >= 64
    assert env.secret_key("SECRET_KEY", "", path=folder / "secret-key") == key
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "secret-key")] == [0o700, 0o600]
    with pytest.raises(ImproperlyConfigured, match=r"^SECRET_KEY is not set, and a generated key cannot be kept in "):
        env.secret_key("SECRET_KEY", "", path=folder / "secret-key" / "key")


def test_a_secret_is_read_from_a_file_unless_it_is_set_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, content in (("secret", "\nkäse \n".encode()), ("empty", b" \n"), ("bytes", b"hidden \xff")):
        (tmp_path / name).write_bytes(content)
    for name in env.SECRET:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))
        assert env.raw(name) == "käse"
    reasons = {"missing": "No such file.*", ".": "Is a directory", "empty": "it is empty", "bytes": "it is no text.*"}
    for name, reason in reasons.items():
        sentence = rf"^SECRET_KEY_FILE must be the path of a file that can be read \({reason}\)\.$"
        with pytest.raises(ImproperlyConfigured, match=sentence):
            settings_with(monkeypatch, SECRET_KEY_FILE=str(tmp_path / name))
    with pytest.raises(
        ImproperlyConfigured, match=r"^SECRET_KEY and SECRET_KEY_FILE are both set\. Set one of them\.$"
    ):
        settings_with(monkeypatch, SECRET_KEY="hidden", SECRET_KEY_FILE=str(tmp_path / "empty"))


def test_a_name_like_ours_and_no_other_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DATABASE_URI", "TRUSTED_PROXYS", "SIGNUP", "SECRET_KEYS"):
        with monkeypatch.context() as patch, pytest.raises(ImproperlyConfigured) as refusal:
            settings_with(patch, **{name: "hidden", "DATABASE_URL": ""})
        assert str(refusal.value).startswith(f"{name} is not a variable of this service")
        assert "hidden" not in str(refusal.value)
    (tmp_path / "url").write_text("sqlite:///:memory:")
    settings_with(monkeypatch, DATABASE_URI="x", DATABASE_URL_FILE=str(tmp_path / "url"))
    others = "REDIS_TLS_URL WEB_SERVICE_HOST SERVICE_PORT PGHOST HOSTNAME PICTURES MEDIA_ROOT AWS_SECRET_ACCESS_KEY "
    others += "RATE_LIMIT_SERVICE_HOST RATE_LIMIT_SERVICE_PORT_HTTP RATE_LIMIT_PORT_80_TCP_ADDR"  # of Kubernetes
    settings_with(monkeypatch, **dict.fromkeys(others.split(), "x"))
    for name in READ_VARIABLES:
        assert not difflib.get_close_matches(name, READ_VARIABLES - {name}, 1, env.ALIKE)


PNG = b"\x89PNG\r\n\x1a\n rest"
LOGOS = {
    "image/svg+xml": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "image/png": PNG,
    "image/webp": b"RIFF\x10\n\x00\x00WEBPVP8 ",
}


@pytest.mark.django_db
def test_the_logo_is_in_place_of_the_mark(client: Client, settings: Any, monkeypatch: Any, tmp_path: Path) -> None:
    assert client.get("/accounts/sign-in").text.count("/static/img/mark.svg") == 2
    monkeypatch.setenv("SERVICE_LOGO", str(tmp_path / "logo"))
    for content_type, content in LOGOS.items():
        (tmp_path / "logo").write_bytes(content)
        settings.SERVICE_LOGO = branding.logo("SERVICE_LOGO")
        page = client.get("/accounts/sign-in").text
        [url] = set(re.findall(r'"(/brand/[^"]+)"', page))
        assert f'<link rel="icon" href="{url}" type="{content_type}">' in page
        assert f'<img class="own" src="{url}" alt="" height="24">' in page
        assert "mark.svg" not in page
        answer = client.get(url, HTTP_COOKIE="a=" + "x" * 9000)
        assert (answer.content, answer["Content-Type"]) == (content, content_type)
        assert "immutable" in answer["Cache-Control"]
        assert "Cookie" not in answer.get("Vary", "")
    # A drawing that is opened by itself runs no script.
    assert re.fullmatch(r"default-src 'none'; (?!.*script).*; sandbox", answer["Content-Security-Policy"])
    assert client.get(f"/brand/{'0' * 32}.svg").status_code == 404


def test_a_logo_of_another_kind_or_that_can_not_be_read_stops_the_start(monkeypatch: Any, tmp_path: Path) -> None:
    path = tmp_path / "logo"
    monkeypatch.setenv("SERVICE_LOGO", str(path))
    for content in (None, b"", b"GIF89a", b"<?xml version='1.0'?><html/>", PNG + b"x" * 204_800):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ImproperlyConfigured, match=r"^SERVICE_LOGO must be the full path of an SVG, PNG or WebP"):
            branding.logo("SERVICE_LOGO")


@pytest.mark.django_db
def test_the_colour_comes_in_a_style_sheet_and_in_the_mark(client: Client, admin_client: Client, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = False
    settings.SERVICE_COLOR = "#0b5fff"
    page = client.get("/accounts/sign-in").text
    [sheet] = re.findall(r'<link rel="stylesheet" href="(/brand/[^"]+\.css)">', page)
    assert page.index("tokens.css") < page.index(sheet) < page.index("site.css")
    answer = client.get(sheet)
    assert answer["Content-Type"] == "text/css; charset=utf-8"
    assert answer.content.startswith(b":root { --color-service: #0b5fff }")
    [mark] = re.findall(r'<img width="24" src="(/brand/[^"]+\.svg)"', page)
    assert b'fill="#0b5fff"' in client.get(mark).content
    administration = admin_client.get("/admin/").content.decode()
    assert re.search(r"tokens\.css.*/brand/\w+\.css.*admin\.css", administration, re.DOTALL)


@pytest.mark.parametrize("color", ["#767676", "#000000", "#8f7200", "#e6000a", "#0000ff"])
def test_text_can_be_read_in_light_and_dark(color: str, settings: Any) -> None:
    known = {"white": WHITE, "black": "#000000", "var(--color-surface)": "#181c1b", "var(--color-service)": color}

    def colors(rules: str) -> dict[str, str]:
        found = re.findall(r"--color-([a-z-]+): color-mix\(in srgb, (\S+), (\S+) (\d+)%\);", rules)
        mixed = {}
        for name, one, other, percent in found:
            if one != "transparent":
                pairs = zip(*(bytes.fromhex(known[each][1:]) for each in (one, other)), strict=True)
                mixed[name] = f"#{bytes(round(a + (b - a) * int(percent) / 100) for a, b in pairs).hex()}"
        return mixed

    light, dark, _ = re.split(r"@media [^{]+", branding.files(None, color)["stylesheet"].content.decode())
    tokens = (settings.BASE_DIR / "static/css/tokens.css").read_text()
    for rules, surfaces in ((colors(light), (WHITE, "#f2f1ec")), (colors(dark), ("#181c1b", "#1f2423"))):
        for background in (*surfaces, rules["accent-soft"], rules["pass"]):
            assert contrast(rules["accent"], background) >= 4.5
        assert all(f": {each};" in tokens for each in surfaces if each != WHITE)
