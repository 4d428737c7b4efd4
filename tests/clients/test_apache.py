"""mod_auth_openidc, with the lines of docs/connect.md: it signs people in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.clients.conftest import Answer, code_of
from tests.factories import ApplicationFactory
from tests.server import free_port, is_open, started

MODULES = Path("/usr/lib/apache2/modules")
LOADED = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_openidc")
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
def apache(port: int, documented: str) -> Iterator[Path]:
    """Apache on the loopback `port` with the page /protected/page.txt; it ends with the block. Gives its error log."""
    found = shutil.which("apache2", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None or not (MODULES / "mod_auth_openidc.so").exists():
        pytest.skip("needs Apache with mod_auth_openidc")
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "error.log")
        folder.chmod(0o755)  # as root, Apache reads the pages as another user
        page = folder / "pages" / "protected" / "page.txt"
        page.parent.mkdir(parents=True)
        page.write_text("protected", encoding="utf-8")
        modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in LOADED)
        user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
        text = AROUND.format(folder=folder, port=port, modules=modules, user=user, documented=documented)
        (folder / "apache.conf").write_text(text, encoding="utf-8")
        with started([found, "-f", folder / "apache.conf", "-D", "FOREGROUND"], lambda: is_open(port), log):
            yield log


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_mod_auth_openidc(answer: Answer, alice: Any, algorithm: str) -> None:
    port = free_port()
    address = f"http://localhost:{port}"
    application = ApplicationFactory(redirect_uris=f"{address}/protected/callback", id_token_alg=algorithm)
    code = code_of("mod-auth-openidc", application).replace("https://{YOUR_HOST}", address)
    with apache(port, code.replace("{PASSPHRASE}", "p" * 32)) as log:
        browser = requests.Session()
        away = browser.get(f"{address}/protected/page.txt", allow_redirects=False)
        assert away.status_code == 302, away.text + log.read_text(encoding="utf-8")
        page = browser.get(answer(away.headers["Location"]).url)
        assert (page.status_code, page.text, page.url) == (200, "protected", f"{address}/protected/page.txt")
        assert (page.headers["X-Sub"], page.headers["X-Email"]) == (str(alice.pk), alice.email)
        assert browser.get(page.url, allow_redirects=False).status_code == 200
