"""After complete flows neither the database nor the log contains a usable credential. D15."""

from __future__ import annotations

import base64
from typing import Any

from accounts.models import Session
from oauth_bridge.models import AccessToken, ApplicationSecret, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, database_text

STATE = "state-that-nobody-may-keep-71f3"
WRONG_PASSWORD = "wrong-password-that-nobody-may-keep"
WRONG_SECRET = "wrong-secret-that-nobody-may-keep"
BAD_TOKEN = "bad-token-that-nobody-may-keep"
NEW_PASSWORD = "new-password-that-nobody-may-keep"
SECRET_KEY = "key-of-the-service-that-nobody-may-keep-or-print-8e1c"


def reset_password(driver: OAuthDriver, server: Any, email: str) -> str:
    driver.submit(Page(driver.open("/accounts/password/reset")).forms[0], email=email)
    link = server.reset_link()
    page = driver.open(link)
    form = next(form for form in Page(page).forms if form.of_type("password"))
    passwords = {name: NEW_PASSWORD for name, kind in form.types.items() if kind == "password"}
    driver.submit(form, **passwords)
    return link.rsplit("/", 1)[1].partition("-")[2]


@contract("D15.digests", "D15.dump")
def test_neither_database_nor_log_holds_anything_that_can_be_used(launch: Launch) -> None:
    server = launch(SECRET_KEY=SECRET_KEY)
    alice, application = PersonFactory(), ApplicationFactory()
    driver = OAuthDriver(server.base_url, server.auth_url)
    found: dict[str, str] = {"state": STATE, "password": PASSWORD, "client secret": application.client_secret}
    found |= {"wrong password": WRONG_PASSWORD, "new password": NEW_PASSWORD, "secret key": SECRET_KEY}

    link = driver.authorization_url(application, state=STATE)
    driver.sign_in(driver.open(link), alice.email, WRONG_PASSWORD)
    found["code"] = driver.authorize(link, alice.email, PASSWORD).parameters["code"]
    found["token"] = driver.exchange(application, found["code"]).json()["access_token"]
    assert driver.userinfo(found["token"]).status_code == 200
    driver.exchange(application, found["code"])
    driver.exchange(application, found["code"], client_secret=WRONG_SECRET)
    driver.userinfo(BAD_TOKEN)
    driver.call("GET", f"/oauth/userinfo?access_token={found['token']}")
    driver.call("POST", f"/oauth/token?code={found['code']}&client_secret={application.client_secret}")
    driver.get(f"/oauth/authorize?state={STATE}&code={found['code']}")
    driver.get(f"/unknown/{found['code']}?{found['token']}")
    driver.get("/accounts/sign-in", headers={"Referer": f"{link}&code={found['code']}"})
    found["sessions"] = next(value for name, value in driver.browser.cookies.items() if "session" in name)
    stranger = OAuthDriver(server.base_url, server.auth_url)
    found["reset key"] = reset_password(stranger, server, alice.email)
    found |= {"wrong secret": WRONG_SECRET, "bad token": BAD_TOKEN}

    database, log = database_text(), server.log
    assert application.client_id in database, "the dump reads the tables"
    assert '"route":"/oauth/token"' in log, "the log is written"
    for name, value in found.items():
        assert len(value) > 10, name
        assert value not in database, f"the {name} is in the database"
        assert value not in log, f"the {name} is in the log"
        assert value.encode().hex() not in database, f"the {name} is in the database"
    assert alice.email not in log
    assert "client_id=" not in log
    assert "?" not in "".join(line for line in log.splitlines() if '"route":"/oauth/authorize"' in line)


@contract("D15.digests")
def test_what_the_database_holds_of_a_credential_is_no_credential(
    driver: OAuthDriver, another_driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = driver.authorize(driver.authorization_url(application), alice.email, PASSWORD).parameters["code"]
    for guess in guesses(AuthorizationCode, application):
        assert driver.exchange(application, guess).status_code == 400
    for guess in guesses(ApplicationSecret, application):
        assert driver.exchange(application, code, client_secret=guess).status_code == 401
    token = driver.exchange(application, code).json()["access_token"]
    assert driver.userinfo(token).status_code == 200
    for guess in guesses(AccessToken, application):
        assert driver.userinfo(guess).status_code == 401
    name = next(name for name in driver.browser.cookies.keys() if "session" in name)  # noqa: SIM118
    key = Session.objects.get(user=alice).session_key
    another_driver.browser.cookies.set(name, key, domain="localhost.local", path="/")
    assert another_driver.get("/accounts/profile").status_code == 302


def guesses(model: type[AuthorizationCode | ApplicationSecret | AccessToken], application: Registered) -> list[str]:
    """The stored digest as text, in hexadecimal digits and in the characters of a credential."""
    digest = bytes(model._default_manager.get(application=application.row).digest)
    return [digest.hex(), digest.hex().upper(), base64.urlsafe_b64encode(digest).rstrip(b"=").decode()]


@contract("D15.dump")
def test_the_admin_shows_no_credential(driver: OAuthDriver, application: Registered) -> None:
    staff = PersonFactory(is_staff=True, is_superuser=True)
    driver.signed_in(staff.email, PASSWORD)
    secret = application.row.secrets.get()
    pages = [
        "/admin/",
        "/admin/oauth_bridge/application/",
        f"/admin/oauth_bridge/application/{application.row.pk}/change/",
        f"/admin/oauth_bridge/application/{application.row.pk}/",
        f"/admin/oauth_bridge/application/{application.row.pk}/act/new-secret/",
        f"/admin/trail/?kind=application&key={application.row.client_id}",
        "/admin/accounts/user/",
        f"/admin/accounts/user/{staff.pk}/change/",
    ]
    for path in pages:
        answer = driver.get(path)
        assert answer.status_code == 200, path
        assert application.client_secret not in answer.text
        assert bytes(secret.digest).hex() not in answer.text
        assert "argon2$argon2id$v=19$" not in answer.text
    models = [f"oauth_bridge/{each}" for each in ("accesstoken", "authorizationcode", "applicationsecret", "consent")]
    for model in (*models, "accounts/session", "account/emailaddress", "mfa/authenticator"):
        assert driver.get(f"/admin/{model}/").status_code == 404, model
