"""`manage.py check-deployment` of a whole installation, and of each part of it that is right or broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.db import connection
from joserfc.jwk import RSAKey

from config import environment as env
from config.deployment import database, mails, outside, redis_state
from config.deployment.findings import Finding, bounded
from config.infrastructure.postgresql import timeouts
from tests.databases import Cluster, OwnRedis, in_use
from tests.faults.findings import by_name
from tests.peers import MailServer, certificate_for, nginx
from tests.server import Server, free_port, serve


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


def test_everything_that_is_away_is_said_at_once(
    time_outs: None, manage: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = free_port()
    use_mail(settings, monkeypatch, f"smtp+tls://user:hidden@localhost:{away}")
    settings.AUTH_URL = settings.BASE_URL = f"https://localhost:{away}"
    settings.SECRET_KEY, settings.REDIS_URL = "change-me-" * 6, f"redis://:hidden@127.0.0.1:{away}/0"
    done = manage("check-deployment", "--json")
    said = json.loads(done.stdout)
    failed = {each["name"] for each in said["checks"] if each["status"] == "failed"}
    assert (done.returncode, said["ok"]) == (1, False)
    assert {"secret_key", "redis", "mail", "auth_url"} <= failed
    assert "hidden" not in done.stdout + done.stderr
    assert "change-me" not in done.stdout + done.stderr


def test_what_the_proxy_passes_on(checked: Callable[..., dict[str, Finding]]) -> None:
    assert checked()["auth_url_proxy"].status == "ok"
    assert checked(X_Forwarded_For="$http_x_forwarded_for")["auth_url_proxy"].status == "failed"
    assert checked(X_Forwarded_For="203.0.113.5")["auth_url_proxy"].status == "warning"
    assert checked(Host="$host")["auth_url_host"].status == "failed"
    assert checked(Host="elsewhere.example")["auth_url"].status == "failed"


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


# Its parts ------------------------------------------------------------------------------------------------------------


def test_redis_in_each_state(redis_server: OwnRedis, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url

    def statuses(*command: str) -> dict[str, str]:
        if command:
            subprocess.run(["redis-cli", "-p", str(redis_server.port), *command], check=True, capture_output=True)
        return {name: each.status for name, each in by_name(bounded("redis", redis_state.findings, 2)).items()}

    assert statuses() == {"redis": "ok", "redis_memory": "ok", "clock_redis": "ok"}
    statuses("config", "set", "maxmemory", "100mb")
    assert statuses("config", "set", "maxmemory-policy", "allkeys-lru")["redis_memory"] == "warning"
    assert statuses("config", "set", "maxmemory-policy", "noeviction")["redis_memory"] == "ok"
    assert statuses("config", "set", "maxmemory", "1") == {"redis": "failed"}
    assert statuses("config", "set", "maxmemory", "0")["redis"] == "ok"
    assert statuses("replicaof", "127.0.0.1", "1") == {"redis": "failed"}
    redis_server.pause()
    assert statuses() == {"redis": "failed"}
    redis_server.go_on()
    redis_server.kill()
    assert statuses() == {"redis": "failed"}
    settings.REDIS_URL = ""
    assert statuses() == {"redis": "skipped"}


def use_mail(settings: Any, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("EMAIL_URL", url)
    for name, value in env.email("EMAIL_URL", Path("/")).items():
        setattr(settings, name, value)


@pytest.mark.parametrize(
    ("url", "mode", "status"),
    [
        ("smtp://127.0.0.1:{port}", "takes", "ok"),
        ("smtp://user:hidden@127.0.0.1:{port}", "takes", "failed"),  # it takes no login
        ("smtp+tls://127.0.0.1:{port}", "takes", "failed"),
        ("smtp://127.0.0.1:{port}", "refuses the greeting", "failed"),
        ("smtp://nowhere.invalid", "takes", "failed"),
        ("filemail:///var/mail", "takes", "failed"),
    ],
)
def test_mail_servers(
    url: str, mode: str, status: str, mail_server: MailServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_mail(settings, monkeypatch, url.format(port=mail_server.port))
    settings.IS_HTTPS, mail_server.mode = True, mode
    assert by_name(bounded("mail", mails.findings, 2))["mail"].status == status
    assert mail_server.mails == []


def test_a_mail_that_is_asked_for(mail_server: MailServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use_mail(settings, monkeypatch, mail_server.url)
    mail_server.mode = "refuses"
    assert [each.status for each in mails.findings("nobody@example.com")] == ["ok", "failed"]
    mail_server.close()
    assert [each.status for each in mails.findings("nobody@example.com")] == ["failed", "skipped"]


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check limits the statements of its process; the others of this process have no limit again afterwards."""
    monkeypatch.setattr(timeouts, "limit_statements", lambda: None)
    monkeypatch.setitem(timeouts.session_timeouts, "statement_timeout", 10)


def of_database() -> dict[str, str]:
    return {name: each.status for name, each in by_name(database.findings()).items()}


def test_a_postgresql_in_each_state(time_outs: None, own_postgresql: Cluster, settings: Any) -> None:
    found = of_database()
    assert found.pop("purge") in ("warning", "ok")
    assert set(found.values()) == {"ok"}
    assert {"database", "database_encoding", "database_time_outs", "database_connections"} < set(found)
    settings.WEB_CONCURRENCY = 64
    assert of_database()["database_connections"] == "warning"

    own_postgresql.administer("CREATE DATABASE latin OWNER service ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with in_use(own_postgresql.url.removesuffix("service") + "latin"):
        found = of_database()
    assert (found["database_encoding"], found["migrations"], found["purge"]) == ("failed", "failed", "skipped")

    with in_use(f"{own_postgresql.url}?options=-c%20lock_timeout=0"):
        assert of_database()["database_time_outs"] == "warning"
    with in_use(f"{own_postgresql.url}?options=-c%20default_transaction_read_only=on"):
        assert of_database()["database"] == "failed"

    connection.close()
    own_postgresql.suspend()
    assert of_database()["database"] == "failed"
    own_postgresql.resume()
    others = dict.fromkeys(("migrations", "purge", "signing_keys"), "skipped")
    with in_use(f"postgres://service:hidden@127.0.0.1:{free_port()}/service"):
        assert of_database() == {"database": "failed"} | others


def test_a_pooler_needs_statements_that_are_not_prepared(time_outs: None, pooled: str) -> None:
    with in_use(pooled):
        assert of_database()["database_pooler"] == "failed"
    with in_use(f"{pooled}?prepare_threshold=none"):
        found = of_database()
    assert (found["database_pooler"], found["database_connections"]) == ("ok", "skipped")
    assert found["database_time_outs"] == "warning"  # the pooler leaves out `options`
