"""Firefox and WebKit as Debian has them, which Selenium can drive and Playwright cannot."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchFrameException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.firefox.options import Options as FirefoxOptions
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from selenium.webdriver.webkitgtk.options import Options as WebKitOptions
from selenium.webdriver.webkitgtk.service import Service as WebKitService

from tests.browser.marionette import Marionette
from tests.server import wait_until_up

PATIENCE_SECONDS = 120
PREFERENCES = {
    "marionette.port": 0,  # a free one
    "intl.accept_languages": "en-GB",
    "security.webauth.webauthn_enable_softtoken": True,
    "security.webauth.webauthn_enable_usbtoken": False,
}
PASSING = [NoSuchFrameException, StaleElementReferenceException]  # while a document takes the place of another
MINIBROWSER = "*-linux-gnu*/webkit2gtk-4.1/MiniBrowser"


class Browser:
    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def back(self) -> None:
        """Go back to a page that reloads itself when it is restored from memory, and wait until it has done so."""
        self.driver.back()
        kind = "performance.getEntriesByType('navigation')[0]?.type"
        self._wait(lambda: self.evaluate(kind) in ("reload", "back_forward"), "a fresh page")

    def forget(self, origin: str) -> None:
        # Not a page: the answer to its last request could set a cookie again.
        self.open(f"{origin}/static/css/tokens.css")
        self.evaluate("document.cookie = 'probe=1; path=/'")
        self._wait(self.driver.get_cookies, "a cookie")
        # Once only: WebKit deletes later than it says, and a second deletion could take the cookies of the next page.
        self.driver.delete_all_cookies()
        self._wait(lambda: not self.driver.get_cookies(), "an end of the cookies")

    def evaluate(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def has_button(self, name: str) -> bool:
        return bool(self._visible(f'//button[starts-with(normalize-space(), "{name}")]'))

    def button(self, *names: str) -> WebElement:
        """The visible button whose text begins with one of the names, as soon as it is there."""
        texts = " or ".join(f'starts-with(normalize-space(), "{name}")' for name in names)
        return self._wait(lambda: self._visible(f"//button[{texts}]"), f"a button {names}")[0]

    def press(self, *names: str) -> None:
        self.button(*names).click()

    def field(self, label: str) -> WebElement:
        path = f'//label[starts-with(normalize-space(), "{label}")]'
        return self._wait(lambda: self._visible(f"//input[@id={path}/@for]|{path}//input"), f"a field {label}")[0]

    def fill(self, label: str, text: str) -> None:
        self.field(label).clear()
        self.field(label).send_keys(text)

    def shows(self, text: str) -> None:
        self._wait(lambda: text in self.driver.find_element(By.TAG_NAME, "body").text, f"the text {text}")

    def arrives(self, address: str) -> None:
        """Wait for a page at this address, with any query. `current_url` may be that of a request still to be sent."""
        pattern = rf"{re.escape(address)}(\?|$)"
        # Between two documents Firefox has none.
        self._wait(lambda: re.match(pattern, self.evaluate("document.URL") or ""), f"the address {address}")

    def _visible(self, path: str) -> list[WebElement]:
        return [element for element in self.driver.find_elements(By.XPATH, path) if element.is_displayed()]

    def _wait(self, condition: Any, what: str) -> Any:
        wait = WebDriverWait(self.driver, PATIENCE_SECONDS, 0.05, PASSING)
        try:
            return wait.until(lambda _: condition())
        except Exception as error:
            text = self.driver.find_element(By.TAG_NAME, "body").text
            raise AssertionError(f"no {what} at {self.driver.current_url}:\n{text}") from error


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


@contextmanager
def firefox(folder: Path) -> Iterator[Browser]:
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
    (folder / "user.js").write_text("".join(lines))
    options = ("--headless", "--no-remote", "--marionette", "--profile", str(folder))
    with (folder / "log").open("wb") as log:
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen([program("firefox-esr"), *options], stdout=log, stderr=log, env=environment)
    try:
        port = folder / "MarionetteActivePort"
        wait_until_up(process, lambda: port.exists() and port.read_text(), folder / "log")
        yield Browser(webdriver.Remote(Marionette(int(port.read_text())), options=FirefoxOptions()))
    finally:
        process.kill()
        process.wait()


@contextmanager
def screen() -> Iterator[str]:
    reading, writing = os.pipe()
    command = [program("Xvfb"), "-displayfd", str(writing), "-screen", "0", "1366x900x24", "-nolisten", "tcp"]
    process = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as pipe:
            yield f":{pipe.readline().strip()}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def webkit(folder: Path) -> Iterator[Browser]:
    path = program("WebKitWebDriver")
    with screen() as display:
        options = WebKitOptions()
        options.binary_location = str(next(Path("/usr/lib").glob(MINIBROWSER)))
        options.add_argument("--automation")
        environment = {**os.environ, "DISPLAY": display, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        service = WebKitService(path, env=environment, log_output=str(folder / "log"))
        driver = webdriver.WebKitGTK(options=options, service=service)
        try:
            yield Browser(driver)
        finally:
            driver.quit()


ENGINES = {"firefox": firefox, "webkit": webkit}
