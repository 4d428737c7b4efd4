"""`manage.py check-deployment` of the whole installation, and of its addresses behind nginx with TLS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc.jwk import RSAKey

from config.deployment import outside
from config.deployment.findings import Finding
from tests.checks import by_name
from tests.nginx import certificate_for, nginx
from tests.own_redis import OwnRedis
from tests.server import Server, free_port, serve
from tests.smtp import MailServer


class Site(NamedTuple):
    """An installation with two hosts: `url` is its AUTH_URL."""

    server: Server
    upstream: int
    api_url: str
    url: str
    certificate: Path


def key_folder(parent: Path) -> Path:
    folder = parent / "keys"
    folder.mkdir()
    (folder / "signing.pem").write_bytes(RSAKey.generate_key(2048).as_pem(private=True))
    return folder


@pytest.fixture(scope="module")
def site(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("checked")
    port, upstream = free_port(), free_port()
    api_url, url = f"https://127.0.0.1:{port}", f"https://localhost:{port}"
    given = {"BASE_URL": api_url, "AUTH_URL": url, "TRUSTED_PROXIES": "127.0.0.1"}
    with serve(folder / "server", port=upstream, **given) as server:
        yield Site(server, upstream, api_url, url, certificate_for(folder, 90))


@pytest.fixture
def checked(
    site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., dict[str, Finding]]:
    """`checked(Host="$host")` says what is found behind an nginx that passes this header on."""
    settings.BASE_URL, settings.AUTH_URL = site.api_url, site.url
    settings.SECRET_KEY, settings.TRUSTED_PROXIES = site.server.secret_key, [ip_network("127.0.0.1")]

    def check(certificate: Path = site.certificate, trust: bool = True, **headers: str) -> dict[str, Finding]:
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt" if trust else "/dev/null")
        with nginx(tmp_path / "nginx", int(site.url.rpartition(":")[2]), site.upstream, certificate, **headers):
            return by_name(outside.findings("auth_url", site.url))

    return check


def test_a_right_installation_passes(
    site: Site, mail_server: MailServer, tmp_path: Path, manage: Any, redis_server: OwnRedis
) -> None:
    variables = {
        "BASE_URL": site.api_url,
        "AUTH_URL": site.url,
        "SECRET_KEY": site.server.secret_key,
        "TRUSTED_PROXIES": "127.0.0.1",
        "EMAIL_URL": mail_server.url,
        "REDIS_URL": redis_server.url,
        "SSL_CERT_FILE": f"{site.certificate}.crt",
        # Those of the database are sealed by the secrets of other tests' servers.
        "SIGNING_KEYS": str(key_folder(tmp_path)),
    }
    port = int(site.url.rpartition(":")[2])
    with nginx(tmp_path / "nginx", port, site.upstream, site.certificate):
        done = manage("check-deployment", "--json", "--mail", "alice@example.com", **variables)
    said = json.loads(done.stdout)
    statuses = {each["name"]: each["status"] for each in said["checks"]}
    wrong = [each for each in said["checks"] if each["status"] not in ("ok", "skipped")]
    assert [each["name"] for each in wrong] in ([], ["purge"]), wrong
    assert (done.returncode, said["ok"], done.stderr) == (0, True, "")
    assert {"database", "migrations", "redis", "clock_redis", "mail", "mail_sent"} <= statuses.keys()
    assert {"auth_url_host", "auth_url_proxy", "auth_url_certificate", "auth_url_limits"} <= statuses.keys()
    assert [mail["To"] for mail in mail_server.mails] == ["alice@example.com"]


def test_everything_that_is_away_is_said_at_once(manage: Any, tmp_path: Path) -> None:
    away = free_port()
    done = manage(
        "check-deployment",
        "--json",
        BASE_URL=f"https://localhost:{away}",
        SECRET_KEY="change-me-" * 6,
        REDIS_URL=f"redis://:hidden@127.0.0.1:{away}/0",
        EMAIL_URL=f"smtp+tls://user:hidden@localhost:{away}",
        DATABASE_URL=f"postgres://service:hidden@127.0.0.1:{away}/service",
    )
    said = json.loads(done.stdout)
    failed = {each["name"] for each in said["checks"] if each["status"] == "failed"}
    assert (done.returncode, said["ok"]) == (1, False)
    assert {"secret_key", "database", "redis", "mail", "auth_url"} <= failed
    assert "hidden" not in done.stdout + done.stderr
    assert "change-me" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("headers", "name", "status"),
    [
        ({}, "auth_url_proxy", "ok"),
        ({"X_Forwarded_For": "$http_x_forwarded_for"}, "auth_url_proxy", "failed"),
        ({"X_Forwarded_For": "203.0.113.5"}, "auth_url_proxy", "warning"),
        ({"Host": "$host"}, "auth_url_host", "failed"),
        ({"Host": "elsewhere.example"}, "auth_url", "failed"),
    ],
    ids=str,
)
def test_what_the_proxy_passes_on(
    checked: Callable[..., dict[str, Finding]], headers: dict[str, str], name: str, status: str
) -> None:
    assert checked(**headers)[name].status == status


def test_certificates(checked: Callable[..., dict[str, Finding]], tmp_path: Path) -> None:
    assert "self" in checked(trust=False)["auth_url"].message
    assert checked(certificate_for(tmp_path, 5))["auth_url_certificate"].status == "warning"


def test_a_service_that_is_down(checked: Any, site: Site, settings: Any, tmp_path: Path) -> None:
    settings.AUTH_URL = url = f"https://localhost:{free_port()}"
    port = int(url.rpartition(":")[2])
    with nginx(tmp_path / "nginx", port, free_port(), site.certificate), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", f"{site.certificate}.crt")
        [found] = outside.findings("auth_url", url)
    assert (found.status, "502" in found.message) == ("failed", True)
    [found] = outside.findings("auth_url", url)
    assert "refuses connections" in found.message
    [found] = outside.findings("auth_url", "https://nowhere.invalid")
    assert "no address" in found.message
