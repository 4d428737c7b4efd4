"""Firefox and WebKit as Debian has them, which Selenium can drive and Playwright cannot.

Debian 12 has no geckodriver: Firefox answers by its Marionette protocol.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoSuchFrameException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.firefox.options import Options as FirefoxOptions
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from selenium.webdriver.webkitgtk.options import Options as WebKitOptions
from selenium.webdriver.webkitgtk.service import Service as WebKitService

from tests.server import program, started

PATIENCE_SECONDS = 120
PREFERENCES = {
    "marionette.port": 0,  # a free one
    "intl.accept_languages": "en-GB",
    "security.webauth.webauthn_enable_softtoken": True,
    "security.webauth.webauthn_enable_usbtoken": False,
}
PASSING = [NoSuchFrameException, StaleElementReferenceException]  # while a document takes the place of another
MINIBROWSER = "*-linux-gnu*/webkit2gtk-4.1/MiniBrowser"


# Selenium's name of a command, where it isn't Marionette's in another spelling.
NAMES = {
    Command.GET: "WebDriver:Navigate",
    Command.GO_BACK: "WebDriver:Back",
    Command.CLICK_ELEMENT: "WebDriver:ElementClick",
    Command.CLEAR_ELEMENT: "WebDriver:ElementClear",
    Command.SEND_KEYS_TO_ELEMENT: "WebDriver:ElementSendKeys",
    Command.GET_CURRENT_URL: "WebDriver:GetCurrentURL",
    Command.ADD_VIRTUAL_AUTHENTICATOR: "WebAuthn:AddVirtualAuthenticator",
}


class Marionette:
    """What Selenium's Remote takes as its `command_executor`, for the port of Firefox's Marionette.

    The protocol (https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html) has WebDriver's commands as
    `LENGTH:[0, id, command, parameters]`, and answers as `LENGTH:[1, id, error, result]`, over a TCP socket.
    """

    def __init__(self, port: int) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=300).makefile("rwb")
        self.numbers = itertools.count(1)
        self._receive()  # the greeting

    def execute(self, command: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the answer as one of WebDriver over HTTP: `value`, and in an error `status`."""
        given = {name: value for name, value in parameters.items() if name != "sessionId"}
        if command == Command.NEW_SESSION:
            given = given["capabilities"]["alwaysMatch"]
        plain = re.sub("^w3c", "", command)
        name = NAMES.get(command, f"WebDriver:{plain[0].upper()}{plain[1:]}")
        message = json.dumps([0, next(self.numbers), name, given]).encode()
        self.stream.write(b"%d:%s" % (len(message), message))
        self.stream.flush()
        _type, _number, error, result = self._receive()
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        return {"value": result["value"] if isinstance(result, dict) and result.keys() == {"value"} else result}

    def _receive(self) -> Any:
        digits = b""
        while (digit := self.stream.read(1)) != b":":
            if not digit:
                raise ConnectionError("Firefox closed the connection")
            digits += digit
        return json.loads(self.stream.read(int(digits)))


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

    def evaluate(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def buttons(self, *names: str) -> list[WebElement]:
        """The visible buttons whose text begins with one of the names."""
        texts = " or ".join(f'starts-with(normalize-space(), "{name}")' for name in names)
        return self._visible(f"//button[{texts}]")

    def button(self, *names: str) -> WebElement:
        return self._wait(lambda: self.buttons(*names), f"a button {names}")[0]

    def press(self, *names: str) -> None:
        self.button(*names).click()

    def fill(self, label: str, text: str) -> None:
        path = f'//label[starts-with(normalize-space(), "{label}")]'
        [field] = self._wait(lambda: self._visible(f"//input[@id={path}/@for]|{path}//input"), f"a field {label}")
        field.clear()
        field.send_keys(text)

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


@contextmanager
def firefox(folder: Path) -> Iterator[Browser]:
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
    (folder / "user.js").write_text("".join(lines))
    options = ("--headless", "--no-remote", "--marionette", "--profile", str(folder))
    port, environment = folder / "MarionetteActivePort", {**os.environ, "HOME": str(folder)}
    command = [program("firefox-esr"), *options]
    with started(command, lambda: port.exists() and port.read_text(), folder / "log", env=environment):
        yield Browser(webdriver.Remote(Marionette(int(port.read_text())), options=FirefoxOptions()))


@contextmanager
def webkit(folder: Path) -> Iterator[Browser]:
    path, screen = program("WebKitWebDriver"), [program("Xvfb"), "-displayfd", "1", "-screen", "0", "1366x900x24"]
    with subprocess.Popen(screen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as display:
        try:
            assert display.stdout
            number = display.stdout.readline().strip()
            environment = {**os.environ, "DISPLAY": f":{number}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
            service = WebKitService(path, env=environment, log_output=str(folder / "log"))
            options = WebKitOptions()
            options.binary_location = str(next(Path("/usr/lib").glob(MINIBROWSER)))
            options.add_argument("--automation")
            driver = webdriver.WebKitGTK(options=options, service=service)
            yield Browser(driver)
            driver.quit()
        finally:
            display.kill()


ENGINES = {"firefox": firefox, "webkit": webkit}
