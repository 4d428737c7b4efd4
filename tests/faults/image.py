"""The image of the service, built from Debian packages as `make image` does, and containers of it on this machine.

Everything that buildah and podman store is in a folder of the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from tests.server import ROOT

NAME = "delegated-sign-in"
PROGRAMS = ("mmdebstrap", "buildah", "podman", "runc")
BUILD_SECONDS, START_SECONDS, STOP_SECONDS = 900, 120, 40
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


@dataclass
class Container:
    name: str
    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def is_up(self, url: str) -> bool:
        """Whether it answers within START_SECONDS."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(requests.ConnectionError, requests.Timeout):
                if requests.get(url, timeout=5).ok:
                    return True
            time.sleep(0.1)
        return False


@dataclass
class Image:
    folder: Path
    environment: dict[str, str] = field(repr=False)

    def podman(self, *arguments: str | Path, seconds: int = START_SECONDS) -> subprocess.CompletedProcess[str]:
        command = ["podman", "--log-level=fatal", *arguments]
        given = {"env": self.environment, "capture_output": True, "text": True, "timeout": seconds, "check": False}
        return subprocess.run(command, **given)  # type: ignore[call-overload,no-any-return]

    def run(self, options: Sequence[str | Path], *command: str) -> subprocess.CompletedProcess[str]:
        """A container that ends by itself. Raises AssertionError: it ends with another status than 0."""
        ended = self.podman("run", "--rm", *options, NAME, *command)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    @contextmanager
    def started(self, name: str, options: Sequence[str | Path], *command: str) -> Iterator[Container]:
        log_path = self.folder / f"{name}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                ["podman", "--log-level=fatal", "run", "--name", name, *options, NAME, *command],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Container(name, process, log_path)
        finally:
            self.podman("rm", "--force", "--time", "0", name)
            process.wait(STOP_SECONDS)


@contextmanager
def built(folder: Path) -> Iterator[Image]:
    """The image. Skips the test where a program is missing, and removes everything afterwards."""
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"needs Debian's {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root, to build an image")
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "containers.conf").write_text(CONTAINERS)
    environment = {
        **os.environ,
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
    }
    image = Image(folder, environment)
    log_path = folder / "build.log"
    try:
        with log_path.open("wb") as log:
            build = [ROOT / "config" / "container" / "build", NAME]
            done = subprocess.run(build, env=environment, stdout=log, stderr=log, timeout=BUILD_SECONDS, check=False)
        assert done.returncode == 0, log_path.read_text(encoding="utf-8", errors="replace")[-3000:]
        yield image
    finally:
        image.podman("rm", "--all", "--force", "--time", "0")
        image.podman("volume", "rm", "--all", "--force")
        image.podman("rmi", "--all", "--force")
        for path in ("images", "running"):
            shutil.rmtree(folder / path, ignore_errors=True)
