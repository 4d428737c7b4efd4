"""Firefox for Selenium without geckodriver, which Debian 12 doesn't have: Firefox answers by its Marionette protocol.

The protocol (https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html) has the commands of WebDriver in
frames `LENGTH:[0, id, command, parameters]`, answered by `LENGTH:[1, id, error, result]`, over a TCP socket.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
from typing import Any

from selenium.webdriver.remote.command import Command

TIMEOUT_SECONDS = 300
# Selenium's name of a command, where it isn't Marionette's in another spelling.
NAMES = {
    Command.GET: "WebDriver:Navigate",
    Command.GO_BACK: "WebDriver:Back",
    Command.CLICK_ELEMENT: "WebDriver:ElementClick",
    Command.CLEAR_ELEMENT: "WebDriver:ElementClear",
    Command.SEND_KEYS_TO_ELEMENT: "WebDriver:ElementSendKeys",
    Command.GET_CURRENT_URL: "WebDriver:GetCurrentURL",
    Command.GET_ALL_COOKIES: "WebDriver:GetCookies",
    Command.ADD_VIRTUAL_AUTHENTICATOR: "WebAuthn:AddVirtualAuthenticator",
}


class Marionette:
    """What Selenium's Remote takes as its `command_executor`, for the port of Firefox's Marionette."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.stream = self.socket.makefile("rb")
        self.numbers = itertools.count(1)
        self._receive()  # the greeting

    def execute(self, command: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the answer as one of WebDriver over HTTP: `value`, and in an error `status`."""
        given = {name: value for name, value in parameters.items() if name != "sessionId"}
        if command == Command.NEW_SESSION:
            given = given["capabilities"]["alwaysMatch"]
        plain = re.sub("^w3c", "", command)
        name = NAMES.get(command, f"WebDriver:{plain[0].upper()}{plain[1:]}")
        self._send([0, next(self.numbers), name, given])
        _type, _number, error, result = self._receive()
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        return {"value": result["value"] if isinstance(result, dict) and result.keys() == {"value"} else result}

    def close(self) -> None:
        self.stream.close()
        self.socket.close()

    def _send(self, message: list[Any]) -> None:
        data = json.dumps(message).encode()
        self.socket.sendall(b"%d:%s" % (len(data), data))

    def _receive(self) -> Any:
        digits = b""
        while (digit := self.stream.read(1)) != b":":
            if not digit:
                raise ConnectionError("Firefox closed the connection")
            digits += digit
        return json.loads(self.stream.read(int(digits)))
