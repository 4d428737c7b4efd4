"""The pictures in docs/pictures: pages of the quickstart, as Chromium shows them in light and in dark.

`make pictures` makes them anew. The consent page, the account, a record that explains a failure, and the first page of
the administration.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
SIZE = {"width": 960, "height": 640}
COLOURS = 64
SERVICE, DEMO = "http://localhost:8000", "http://127.0.0.1:8001"
Scheme = Literal["light", "dark"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        quickstart = subprocess.Popen(
            [sys.executable, "manage.py", "quickstart"],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": f"sqlite:///{folder}/db.sqlite3"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert quickstart.stdout
            words = iter(quickstart.stdout.readline, "")
            printed = "".join(line for line, _ in zip(words, range(11), strict=False))
            accounts = dict(re.findall(r"(\S+@\S+), password (\S+)", printed))
            client_id = re.findall(r"client_id (\w+)", printed)[0]
            with sync_playwright() as playwright:
                program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
                for scheme in ("light", "dark"):
                    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
                    take(context.new_page(), scheme, accounts, client_id)
                    context.close()
        finally:
            quickstart.send_signal(signal.SIGINT)
            quickstart.wait()


def take(page: Page, scheme: Scheme, accounts: dict[str, str], client_id: str) -> None:
    def sign_in(email: str) -> None:
        page.get_by_label("E-mail").fill(email)
        page.get_by_label("Password", exact=True).fill(accounts[email])
        page.get_by_role("button", name="Sign in", exact=True).click()

    def keep(name: str) -> None:
        page.wait_for_load_state("networkidle")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
        picture.save(FOLDER / f"{name}{'-dark' * (scheme == 'dark')}.png", optimize=True)

    person, administrator = accounts
    page.goto(DEMO)
    page.get_by_role("link").first.click()
    sign_in(person)
    keep("consent")
    page.goto(f"{SERVICE}/accounts/profile")
    keep("account")
    slash = f"{SERVICE}/oauth/authorize?response_type=code&client_id={client_id}&redirect_uri={DEMO}/callback/"
    page.goto(slash)
    reference = page.locator("[data-reference], .reference code").first.inner_text()
    page.context.clear_cookies()
    page.goto(f"{SERVICE}/admin/")
    sign_in(administrator)
    page.get_by_role("searchbox").first.fill(reference)
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/activity/*/")
    keep("record")
    page.wait_for_timeout(12_000)  # a thread writes the counts
    page.goto(f"{SERVICE}/admin/")
    keep("administration")


if __name__ == "__main__":
    main()
