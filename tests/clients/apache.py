"""Apache with mod_auth_openidc and the configuration of docs/connect.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server import is_open

MODULES = Path("/usr/lib/apache2/modules")
LOADED = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_openidc")
START_SECONDS = 30
# What Debian's apache2.conf has around the documented block, with folders of the test. The headers show what pages get.
AROUND = """
ServerRoot {folder}
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
Mutex file:{folder}
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
ServerName localhost:{port}
{modules}
{user}
DocumentRoot {folder}/pages
{documented}
Header set X-Sub "expr=%{{reqenv:OIDC_CLAIM_sub}}"
Header set X-Email "expr=%{{reqenv:OIDC_CLAIM_email}}"
"""


@contextmanager
def apache(port: int, documented: str) -> Iterator[None]:
    """Apache on the loopback `port` with the page /protected/page.txt; it ends with the block."""
    found = shutil.which("apache2") or shutil.which("apache2", path="/usr/sbin")
    if found is None or not (MODULES / "mod_auth_openidc.so").exists():
        pytest.skip("needs Apache with mod_auth_openidc")
    with tempfile.TemporaryDirectory() as name, _running(found, Path(name), port, documented):
        yield


@contextmanager
def _running(found: str, folder: Path, port: int, documented: str) -> Iterator[None]:
    folder.chmod(0o755)  # as root, Apache reads the pages as another user
    page = folder / "pages" / "protected" / "page.txt"
    page.parent.mkdir(parents=True)
    page.write_text("protected", encoding="utf-8")
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in LOADED)
    user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
    path = folder / "apache.conf"
    path.write_text(
        AROUND.format(folder=folder, port=port, modules=modules, user=user, documented=documented), encoding="utf-8"
    )
    with subprocess.Popen([found, "-f", path, "-D", "FOREGROUND"]) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while not is_open(port):
                log = folder / "error.log"
                assert process.poll() is None, log.read_text(encoding="utf-8") if log.exists() else "no log"
                assert time.monotonic() < end, "Apache did not start"
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
