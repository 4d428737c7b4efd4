"""The image, with any user ID and a read-only root, on PostgreSQL and on SQLite. docs/operations.md.

It takes minutes, so only `-m long` runs it. What it is set up with: tests/programs/test_container_set_up.py.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from tests import documented
from tests.databases import Cluster
from tests.driver import OAuthDriver
from tests.factories import PASSWORD
from tests.faults.image import NAME, START_SECONDS, STOP_SECONDS, Container, Image, built
from tests.peers import nginx
from tests.server import free_port

pytestmark = pytest.mark.long

EMAIL = "alice@example.com"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built(tmp_path_factory.mktemp("image")) as image:
        yield image


def give(image: Image, folder: Path, commands: str) -> None:
    """Give the commands of a document to a shell, with podman for docker."""
    script = f'docker() {{ podman --log-level=fatal "$@"; }}\n{commands}'
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": START_SECONDS, "check": False}
    done = subprocess.run(["sh", "-ec", script], cwd=folder, env=image.environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def sign_in(image: Image, container: Container, base_url: str) -> None:
    """Somebody signs in to an application, which reads the profile. Commands in the container make both."""

    def manage(*command: str, **variables: str) -> str:
        given = [f"--env={name}={value}" for name, value in variables.items()]
        done = image.podman("exec", *given, container.name, "python", "manage.py", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    person = ("createsuperuser", "--noinput", "--email", EMAIL, "--nickname", "Alice")
    manage(*person, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
    redirect_uri = "https://reading.example/callback"
    created = json.loads(manage("application", "create", "Reading List", "--redirect-uri", redirect_uri, "--json"))
    registered = {name: created[name] for name in ("client_id", "client_secret")}
    application = SimpleNamespace(redirect_uri=redirect_uri, **registered)
    driver = OAuthDriver(base_url)
    callback = driver.authorize(driver.authorization_url(application), EMAIL, PASSWORD)
    token = driver.exchange(application, callback.parameters["code"]).json()["access_token"]
    assert driver.userinfo(token).json()["email"] == EMAIL


def test_on_postgresql_nothing_but_tmp_is_written(image: Image, own_postgresql: Cluster, tmp_path: Path) -> None:
    database, port, key = f"image_{uuid4().hex}", free_port(), secrets.token_urlsafe(64)
    own_postgresql.administer(f"CREATE DATABASE {database} OWNER service")
    kept = {"secret-key": key, "database-url": f"{own_postgresql.url.rpartition('/')[0]}/{database}"}
    for name, value in kept.items():
        (tmp_path / name).write_text(value)
        (tmp_path / name).chmod(0o640)
    variables = {
        "BASE_URL": f"http://localhost:{port}",
        "BIND": f"127.0.0.1:{port}",
        "EMAIL_URL": "smtp://localhost:25",
        "SECRET_KEY_FILE": "/run/secrets/secret-key",
        "DATABASE_URL_FILE": "/run/secrets/database-url",
    }
    options = ["--read-only", "--tmpfs=/tmp", "--user=4242:0", "--cap-drop=ALL", "--network=host"]
    options += ["--security-opt=no-new-privileges"]
    options += [f"--volume={tmp_path / name}:/run/secrets/{name}:ro" for name in kept]
    options += [f"--env={name}={value}" for name, value in variables.items()]

    too_early = image.podman("run", "--rm", *options, NAME)
    assert too_early.returncode == 1
    assert "config.E007" in too_early.stderr
    image.run(options, "migrate")
    with image.started("served", options) as container:
        assert container.is_up(f"http://localhost:{port}/health/ready"), container.log
        assert image.podman("healthcheck", "run", "served").returncode == 0
        assert image.podman("exec", "served", "id", "-u").stdout == "4242\n"
        assert "Read-only" in image.podman("exec", "served", "touch", "/srv/sign-in/x").stderr
        sign_in(image, container, f"http://localhost:{port}")
        image.run(options, "purge")
        image.podman("stop", f"--time={STOP_SECONDS}", "served")
        assert container.process.wait(STOP_SECONDS) == 0, "the signal reaches gunicorn"
        assert key not in container.log


def test_the_image_names_its_version_has_no_tools_left_and_says_that_nothing_answers(image: Image) -> None:
    found = json.loads(image.podman("inspect", NAME).stdout)[0]
    assert found["Labels"]["org.opencontainers.image.version"] == settings.VERSION
    assert found["Config"]["User"] == "10001:0"
    run = ("run", "--rm", "--network=host")
    tools = image.podman(*run, "--entrypoint=sh", NAME, "-c", "command -v pip git gcc; ls tests .git")
    assert tools.stdout == ""
    asked = image.podman(*run, "--entrypoint=python", NAME, "/srv/sign-in/config/container/health.py")
    assert (asked.returncode, asked.stderr.partition(":")[0]) == (1, "The service does not answer")


def test_the_commands_of_the_small_installation(image: Image, tmp_path: Path) -> None:
    """With addresses of this machine."""
    port, upstream = free_port(), free_port()
    url = f"http://localhost:{port}"
    text = documented.block("AUTH_URL=").replace("https://sign-in.example.com", url).replace(":8000", f":{upstream}")
    text = text.replace("SECRET_KEY=…", f"SECRET_KEY={secrets.token_urlsafe(64)}")
    (tmp_path / "sign-in.env").write_text(text, encoding="utf-8")
    give(image, tmp_path, documented.block("docker run --rm --env-file"))
    process = subprocess.Popen(["podman", "wait", "sign-in"], env=image.environment, stdout=subprocess.DEVNULL)
    container = Container("sign-in", process, tmp_path / "log")
    try:
        with nginx(tmp_path / "nginx", port, upstream):
            assert container.is_up(f"{url}/health/ready"), image.podman("logs", "sign-in").stderr
            sign_in(image, container, url)
        give(image, tmp_path, documented.block("17 * * * *").partition(" root ")[2])
        give(image, tmp_path, documented.block("docker exec sign-in python -c"))
    finally:
        image.podman("rm", "--force", "--time", "0", "sign-in")
        process.wait(STOP_SECONDS)
