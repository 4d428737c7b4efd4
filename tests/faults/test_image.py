"""The image, with any user ID and a read-only root, on PostgreSQL and on SQLite. docs/operations.md.

Built from Debian packages as `make image` does. It takes minutes, so only `-m long` runs it. All that buildah and
podman store is in a folder of the test. What the image is set up with: tests/programs/test_container_set_up.py.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
import requests
from django.conf import settings

from tests import documented
from tests.databases import Cluster
from tests.driver import OAuthDriver
from tests.factories import PASSWORD
from tests.peers import nginx
from tests.server import PATIENCE_SECONDS, ROOT, free_port, wait_until

pytestmark = pytest.mark.long

NAME = "delegated-sign-in"
EMAIL, CALLBACK = "alice@example.com", "https://reading.example/callback"
PROGRAMS = ("mmdebstrap", "buildah", "podman", "runc")
BUILD_SECONDS, STOP_SECONDS = 1800, 40
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/running"\n'
# Without systemd, and with the limits of a machine that raises none.
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""


class Podman:
    """Runs podman, and shell commands of the documents with it in docker's place."""

    def __init__(self, folder: Path) -> None:
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
        (folder / "containers.conf").write_text(CONTAINERS)
        files = {"CONTAINERS_STORAGE_CONF": folder / "storage.conf", "CONTAINERS_CONF": folder / "containers.conf"}
        self.environment = {**os.environ, **{name: str(path) for name, path in files.items()}}

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self._run(["podman", "--log-level=fatal", *arguments], Path.cwd())

    def give(self, folder: Path, commands: str) -> None:
        done = self._run(["sh", "-ec", f'docker() {{ podman --log-level=fatal "$@"; }}\n{commands}'], folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def manage(self, container: str, *command: str, **variables: str) -> str:
        given = [f"--env={name}={value}" for name, value in variables.items()]
        done = self("exec", *given, container, "python", "manage.py", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait_until_it_serves(self, container: str, base_url: str) -> None:
        def is_up() -> bool:
            assert self("container", "exists", container).returncode == 0, "it has ended"
            with suppress(requests.RequestException):
                return requests.get(f"{base_url}/health/ready", timeout=5).ok
            return False

        wait_until(is_up)

    def _run(self, command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
        options = {"cwd": folder, "env": self.environment, "capture_output": True, "text": True}
        return subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, **options)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """A podman that has built the image. All that it stores is removed afterwards."""
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"needs Debian's {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("image")
    podman, build = Podman(folder), [ROOT / "config" / "container" / "build", NAME]
    try:
        options = {"env": podman.environment, "timeout": BUILD_SECONDS, "capture_output": True, "text": True}
        done = subprocess.run(build, check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr[-3000:]
        yield podman
    finally:
        podman("rm", "--all", "--force", "--time", "0")
        podman("volume", "rm", "--all", "--force")
        podman("rmi", "--all", "--force")
        for path in ("images", "running"):
            shutil.rmtree(folder / path, ignore_errors=True)


def sign_in(podman: Podman, container: str, base_url: str) -> None:
    """A person signs in to an application, which reads the profile. Commands in the container make both."""
    person = ("createsuperuser", "--noinput", "--email", EMAIL, "--nickname", "Alice")
    podman.manage(container, *person, DJANGO_SUPERUSER_PASSWORD=PASSWORD)
    create = ("application", "create", "Reading List", "--redirect-uri", CALLBACK, "--json")
    application = SimpleNamespace(**json.loads(podman.manage(container, *create)), redirect_uri=CALLBACK)
    driver = OAuthDriver(base_url)
    assert driver.userinfo(driver.token(application, EMAIL, PASSWORD)).json()["email"] == EMAIL


def test_on_postgresql_nothing_but_tmp_is_written(podman: Podman, own_postgresql: Cluster, tmp_path: Path) -> None:
    database, port, key = f"image_{uuid4().hex}", free_port(), secrets.token_urlsafe(64)
    base_url = f"http://localhost:{port}"
    own_postgresql.administer(f"CREATE DATABASE {database} OWNER service")
    variables = {"BASE_URL": base_url, "BIND": f"127.0.0.1:{port}", "EMAIL_URL": "smtp://localhost:25"}
    options = ["--read-only", "--tmpfs=/tmp", "--user=4242:0", "--cap-drop=ALL", "--network=host"]
    options += ["--security-opt=no-new-privileges", *(f"--env={name}={value}" for name, value in variables.items())]
    for name, value in {"SECRET_KEY": key, "DATABASE_URL": own_postgresql.url_of(database)}.items():
        (tmp_path / name).write_text(value)
        (tmp_path / name).chmod(0o640)
        options += [f"--volume={tmp_path / name}:/run/secrets/{name}:ro", f"--env={name}_FILE=/run/secrets/{name}"]

    too_early = podman("run", "--rm", *options, NAME)
    assert too_early.returncode == 1
    assert "config.E007" in too_early.stderr
    assert podman("run", "--rm", *options, NAME, "migrate").returncode == 0
    assert podman("run", "--detach", "--name=served", *options, NAME).returncode == 0
    podman.wait_until_it_serves("served", base_url)
    assert podman("healthcheck", "run", "served").returncode == 0
    assert podman("exec", "served", "id", "-u").stdout == "4242\n"
    assert "Read-only" in podman("exec", "served", "touch", "/srv/sign-in/x").stderr
    sign_in(podman, "served", base_url)
    assert podman("run", "--rm", *options, NAME, "purge").returncode == 0
    podman("stop", f"--time={STOP_SECONDS}", "served")
    assert podman("wait", "served").stdout == "0\n", "the signal reaches gunicorn"
    assert key not in podman("logs", "served").stderr


def test_the_image_names_its_version_and_has_no_tools_left(podman: Podman) -> None:
    found = json.loads(podman("inspect", NAME).stdout)[0]
    assert found["Labels"]["org.opencontainers.image.version"] == settings.VERSION
    assert found["Config"]["User"] == "10001:0"
    run = ("run", "--rm", "--network=host")
    tools = podman(*run, "--entrypoint=sh", NAME, "-c", "command -v pip git gcc; ls tests .git")
    assert tools.stdout == ""


def test_the_commands_of_the_small_installation(podman: Podman, tmp_path: Path) -> None:
    """With addresses of this machine."""
    port, upstream = free_port(), free_port()
    url = f"http://localhost:{port}"
    text = documented.block("AUTH_URL=").replace("https://sign-in.example.com", url).replace(":8000", f":{upstream}")
    text = text.replace("SECRET_KEY=…", f"SECRET_KEY={secrets.token_urlsafe(64)}")
    (tmp_path / "sign-in.env").write_text(text, encoding="utf-8")
    podman.give(tmp_path, documented.block("docker run --rm --env-file"))
    with nginx(tmp_path / "nginx", port, upstream):
        podman.wait_until_it_serves("sign-in", url)
        sign_in(podman, "sign-in", url)
    podman.give(tmp_path, documented.block("17 * * * *").partition(" root ")[2])
    podman.give(tmp_path, documented.block("docker exec sign-in rm"))
