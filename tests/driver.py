"""A browser and an application that use the service over HTTP. This module imports nothing of the service.

Responses are returned unchanged. Redirects are followed within the provider only, so no callback address is requested.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

import requests

TIMEOUT_SECONDS = 120
# All codes, states, secrets and tokens that were sent or received. At the end no log and no row may contain one.
SEEN: set[str] = set()
# Called with every response; they raise AssertionError.
RESPONSE_CHECKS: list[Callable[..., None]] = []
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
# RFC 6749 §5.2: no quotation mark, no backslash, ASCII only.
DESCRIPTION = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    checked: set[str] = field(default_factory=set)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def of_type(self, *types: str) -> str | None:
        return next((name for name, kind in self.types.items() if kind in types), None)


class Page(HTMLParser):
    """The forms and links of an HTML page, and the address to which it refreshes."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__()
        self.url = response.url
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.refresh: str | None = None
        self.words: list[str] = []
        self._form: Form | None = None
        self.feed(response.text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def sign_in(self) -> Form | None:
        return next((form for form in self.forms if form.of_type("password")), None)

    @property
    def consent(self) -> Form | None:
        return next((form for form in self.forms if "pending" in form.fields), None)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self._form = Form(urljoin(self.url, given.get("action", self.url)), given.get("method", "get").lower())
            self.forms.append(self._form)
        elif tag == "a" and not given.get("href", "#").startswith("#"):
            self.links.append(urljoin(self.url, given["href"]))
        elif tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.refresh = given["content"].partition("url=")[2]
        elif tag in ("input", "button") and self._form and given.get("name"):
            self._control(tag, given, self._form)

    def _control(self, tag: str, given: dict[str, str], form: Form) -> None:
        name, kind = given["name"], given.get("type", "text" if tag == "input" else "submit").lower()
        if kind == "submit":
            form.buttons.append((name, given.get("value", "")))
            return
        form.types[name] = kind
        if kind == "checkbox":
            if "checked" in given:
                form.checked.add(name)
        else:
            form.fields[name] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@dataclass(frozen=True)
class Callback:
    """The address to which the service redirects the browser at the end."""

    url: str

    @property
    def address(self) -> str:
        return self.url.partition("?")[0]

    @property
    def parameters(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True, encoding="utf-8", errors="replace"))

    def raw(self, name: str) -> str | None:
        pairs = (pair.partition("=") for pair in urlsplit(self.url).query.split("&"))
        return next((value for key, _, value in pairs if key == name), None)


class OAuthDriver:
    """One browser (with its cookies) at a provider, and the calls of an application's backend."""

    def __init__(self, base_url: str, auth_url: str | None = None) -> None:
        self.base_url = base_url
        self.auth_url = auth_url or base_url
        self.browser = requests.Session()
        self.browser.headers.update(HTML)
        self.backend = requests.Session()
        for session in (self.browser, self.backend):
            session.hooks["response"] += RESPONSE_CHECKS

    # The browser ----------------------------------------------------------------------------------------------------

    def authorization_url(self, application: Any, *, at: str | None = None, **changes: str | None) -> str:
        """A link to the authorization page; a change of None leaves the parameter out."""
        client = {"client_id": application.client_id, "redirect_uri": application.redirect_uri}
        parameters = {**client, "response_type": "code", "state": secrets.token_urlsafe(8), **changes}
        sent = {name: value for name, value in parameters.items() if value is not None}
        return f"{self.auth_url if at is None else at}/oauth/authorize?{urlencode(sent, quote_via=quote)}"

    def get(self, url: str, **options: Any) -> requests.Response:
        url = url if "://" in url else f"{self.auth_url}{url}"
        return self.browser.get(url, allow_redirects=False, timeout=TIMEOUT_SECONDS, **options)

    def open(self, url: str, **options: Any) -> requests.Response:
        """The last page after all redirects within the provider, or the redirect that leaves it."""
        return self.follow(self.get(url, **options))

    def follow(self, response: requests.Response) -> requests.Response:
        for _ in range(10):
            location = response.headers.get("Location")
            if location is None or not self._is_ours(urljoin(response.url, location)):
                return response
            response = self.get(urljoin(response.url, location))
        raise AssertionError(f"Redirects without end at {response.url}")

    def submit(
        self, form: Form, *, button: tuple[str, str] | None = None, follow: bool = True, **fields: str | None
    ) -> requests.Response:
        """Posts the form as a browser would; a field of None is left out."""
        values = {**form.fields, **dict.fromkeys(form.checked, "on"), **dict([button] if button else []), **fields}
        response = self.browser.post(
            form.action,
            data={name: value for name, value in values.items() if value is not None},
            headers={"Origin": "{0.scheme}://{0.netloc}".format(urlsplit(form.action))},
            allow_redirects=False,
            timeout=TIMEOUT_SECONDS,
        )
        return self.follow(response) if follow else response

    def sign_in(self, response: requests.Response, email: str, password: str) -> requests.Response:
        form = Page(response).sign_in
        assert form, f"No sign-in form at {response.url} ({response.status_code})"
        login, secret = form.of_type("email", "text"), form.of_type("password")
        assert login
        assert secret
        return self.submit(form, **{login: email, secret: password})

    def signed_in(self, email: str, password: str) -> OAuthDriver:
        self.sign_in(self.open("/accounts/sign-in"), email, password)
        return self

    def decide(
        self, response: requests.Response, decision: str = "allow", *, remember: bool = False, follow: bool = True
    ) -> requests.Response:
        form = Page(response).consent
        assert form, f"No consent form at {response.url} ({response.status_code}): {Page(response).text[:300]}"
        more = {"remember": "on"} if remember else {}
        return self.submit(form, button=("decision", decision), follow=follow, **more)

    def consent_page(self, application: Any, email: str, password: str, **changes: str | None) -> Any:
        """The consent page for a request, after a sign-in if the service asks for one."""
        return self._after_sign_in(self.authorization_url(application, **changes), email, password)

    def _after_sign_in(self, url: str, email: str, password: str) -> requests.Response:
        response = self.open(url)
        return self.sign_in(response, email, password) if Page(response).sign_in else response

    def authorize(
        self, url: str, email: str, password: str, decision: str = "allow", *, remember: bool = False
    ) -> Callback:
        """Everything a person does at the provider, from the link of an application to its callback address."""
        response = self._after_sign_in(url, email, password)
        if Page(response).consent:
            response = self.decide(response, decision, remember=remember)
        return self.callback(response)

    def token(self, application: Any, email: str = "", password: str = "", *, remember: bool = False) -> str:
        callback = self.authorize(self.authorization_url(application), email, password, remember=remember)
        answer = self.exchange(application, callback.parameters["code"])
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def callback(self, response: requests.Response) -> Callback:
        location = response.headers.get("Location") or Page(response).refresh
        assert location, f"{response.status_code} at {response.url} leads nowhere: {Page(response).text[:300]}"
        assert not self._is_ours(location), f"{location} is not a callback"
        callback = Callback(location)
        record(*(callback.parameters.get(name, "") for name in ("code", "state")))
        return callback

    # The application's backend ----------------------------------------------------------------------------------------

    def exchange(
        self, application: Any, code: str, *, headers: dict[str, str] | None = None, **changes: str | None
    ) -> requests.Response:
        """POST /oauth/token; a change of None leaves the parameter out."""
        client = {"client_id": application.client_id, "client_secret": application.client_secret}
        parameters = {"grant_type": "authorization_code", "code": code, **client, **changes}
        sent = {name: value for name, value in parameters.items() if value is not None}
        answer = self.post_token(urlencode(sent), headers=headers)
        if answer.ok:
            record(code, sent.get("client_secret"), answer.json()["access_token"])
        return answer

    def post_token(self, body: str | bytes, *, headers: dict[str, str] | None = None) -> requests.Response:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return self.call("POST", "/oauth/token", data=body, headers=headers)

    def userinfo(self, token: str, **headers: str) -> requests.Response:
        return self.call("GET", "/oauth/userinfo", headers={"Authorization": f"Bearer {token}", **headers})

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        return self.backend.request(
            method, f"{self.base_url}{path}", allow_redirects=False, timeout=TIMEOUT_SECONDS, **options
        )

    def _is_ours(self, url: str) -> bool:
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        return origin in (self.base_url, self.auth_url)


def record(*credentials: str | None) -> None:
    SEEN.update(each for each in credentials if each and len(each) >= 20)


def error_of(response: requests.Response, status: int, error: str) -> str:
    """Asserts what all JSON errors have in common and returns the sentence. Specification 7; D19, D20, D24."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:400]}"
    assert response.headers["Content-Type"].partition(";")[0] == "application/json"
    body = json.loads(response.content.decode("utf-8"))
    assert set(body) == {"error", "error_description"}, body
    assert body["error"] == error, body
    description = body["error_description"]
    assert isinstance(description, str)
    assert DESCRIPTION.fullmatch(description), description
    sentence, _space, reference = description.rpartition(" Reference ")
    assert reference == f"{response.headers['X-Reference']}.", description
    assert sentence.endswith((".", "?")), description
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    return sentence


def away_of(response: requests.Response) -> None:
    error_of(response, 503, "temporarily_unavailable")
    assert int(response.headers["Retry-After"]) >= 1


def away_page_of(response: requests.Response) -> None:
    assert response.status_code == 503
    assert response.headers["Content-Type"].startswith("text/html")
    assert int(response.headers["Retry-After"]) >= 1
    assert "Back in a moment" in Page(response).text
