"""Names and callback addresses: which are refused, could deceive, or differ from those that are registered. D7."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from oauth_bridge.applications.look_alikes import skeleton
from oauth_bridge.callback_addresses.difference import REASONS, compare, reason
from oauth_bridge.callback_addresses.masking import masked
from oauth_bridge.callback_addresses.registration import (
    hints,
    registration_problem,
    shown_host,
    split_lines,
    validate_lines,
)
from oauth_bridge.models import Application
from tests.factories import ApplicationFactory, PersonFactory
from tests.grants import PAGE, link_of
from tests.pages import admin_page, html_of, with_session
from tests.unit.test_bridge_operator import run

pytestmark = pytest.mark.django_db

ALIKE = [
    " Photo-Printer! ",
    "PHOTO PRlNTER",
    "Ph0to Pr1nter",
    "Phóto Printer™",
    "Photo\u200bPrinter",
    "Ｐｈｏｔｏ Ｐｒｉｎｔｅｒ",
    "Рhоtо Рrіntеr",  # Cyrillic
    "ΡΗΟΤΟ ΡRΙΝΤΕR",  # Greek
    "Phоtο Prınter",
    "❤ Photo Printer",
]
OTHER = ["Photo Painter", "Photo", "Printer Photo", "Photo Printer 2", "Фото", "❤"]
ADD = "/admin/oauth_bridge/application/add/"
CALLBACK = "https://mallory.example/callback"
CYRILLIC = "https://\u0440\u0430\u0443\u0440\u0430l.example/"  # "раураl": Cyrillic, but for the last letter
WHOLLY_CYRILLIC = "https://\u0430\u0440\u0440\u04cf\u0435.example/"  # reads "apple", not one letter of it is Latin


def test_only_names_that_look_alike_have_one_skeleton() -> None:
    assert [name for name in ALIKE if skeleton(name) != skeleton("Photo Printer")] == []
    assert skeleton("rnodern vvire") == skeleton("modern wire")
    assert [name for name in OTHER if skeleton(name) == skeleton("Photo Printer")] == []
    without_a_letter_or_with_a_vowel_sign = ("❤", "★", "हिन्दी", "हिन्द", "...", "写真", "写直")
    assert len({skeleton(name) for name in without_a_letter_or_with_a_vowel_sign}) == 7


def create(name: str) -> str:
    return run("create", name, "--redirect-uri", CALLBACK)[1]


def posted(browser: Client, application: Application | None = None, **fields: str) -> str:
    path = admin_page(application, "change") if application else ADD
    form = {"redirect_uris": CALLBACK, "client_type": "confidential", "id_token_alg": "RS256"}
    return html_of(browser.post(path, {**form, **fields}, follow=True))


def test_no_name_is_near_that_of_a_trusted_application_but_an_older_one_stays(admin_client: Client) -> None:
    mallorys, refused = ApplicationFactory(name="Photo PrInter", is_enabled=False).row, "and one of the two is trusted"
    ours = ApplicationFactory(name="Photo Printer").row
    trust = admin_page(ours, "act", "trust")
    assert refused in html_of(admin_client.post(trust, follow=True))
    Application.objects.filter(pk=mallorys.pk).update(name="Holiday")
    assert refused not in html_of(admin_client.post(trust, follow=True))
    with pytest.raises(CommandError, match="People could take “Photo Printer” for this one"):
        create("Рhоtо Рrіntеr")
    for application in (None, mallorys):
        assert refused in posted(admin_client, application, name="Рhоtо Рrіntеr")
    assert sorted(Application.objects.values_list("name", "is_trusted")) == [
        ("Holiday", False),
        ("Photo Printer", True),
    ]
    assert refused not in posted(admin_client, ours, name="Photo printer", is_trusted="on")
    Application.objects.filter(pk=mallorys.pk).update(name="Photo PrInter")
    assert refused not in posted(admin_client, mallorys, name="Photo PrInter", operator="Mallory Ltd")
    admin_client.post(admin_page(ours, "act", "distrust"))
    assert not Application.objects.filter(is_trusted=True).exists()


def test_another_duplicate_is_registered_and_warned_of(admin_client: Client) -> None:
    first = ApplicationFactory(name="Photo Printer").row
    assert create("Photo Printer") == f"People could take “Photo Printer” ({first.client_id}) for “Photo Printer”.\n"
    assert create("Holiday") == ""
    page = posted(admin_client, name="photo-printer", client_type="public")
    assert page.count("People could take “Photo Printer” for this one.") == 1
    assert "People could take" not in posted(admin_client, first, name=first.name, operator="Ltd")


HOSTS = {
    "https://READING.example:8443/a": "reading.example:8443",
    "http://[::1]:3000/": "[::1]:3000",
    CYRILLIC: "xn--l-7sba6dbr.example",
    WHOLLY_CYRILLIC: "xn--80ak6aa92e.example",
    "https://fa\u00df.example/": "xn--fa-hia.example",  # as browsers do; IDNA 2003 would lead to fass.example
    "https://\uff52eading.example/": "reading.example",  # a wide letter is the same name to a browser
    "https://bank.example@evil.example/": "evil.example",
    **dict.fromkeys(("https://evil.example\u2044bank.example/", "https://a\u202eb.example/"), ""),
    **dict.fromkeys(("https://reading.example:x/", ""), ""),
}


def test_a_host_is_shown_as_browsers_send_it() -> None:
    assert {address: shown_host(address) for address in HOSTS} == HOSTS


@pytest.mark.parametrize("address", [CYRILLIC, WHOLLY_CYRILLIC])
def test_letters_of_another_alphabet_deceive_nobody_on_any_page(client: Client, address: str) -> None:
    application = ApplicationFactory(homepage=address, policy_uri=f"{address}privacy")
    wrong = link_of(application, redirect_uri=f"{application.redirect_uri}x")
    person = with_session(PersonFactory())
    asked = [(client, link_of(application), True), (client, wrong, False), (person, link_of(application), True)]
    for browser, link, is_shown in asked:
        page = html_of(browser.get(link, headers=PAGE, follow=True))
        assert not re.search("[\u0400-\u04ff]", re.sub(r"<[^>]+>", " ", page))
        assert (shown_host(address) in page) is is_shown


PAGES = ("homepage", "policy_uri", "tos_uri", "initiate_login_uri")
NO_PAGES = """javascript:alert(1)|ftp://reading.example/|/privacy|https://|https://bank.example@evil.example/
https://user:password@reading.example/|https://reading.example:99999/|https://reading.example/a b
https://xn--a.example\u2044b.example/|https://reading.example/\u202e""".replace("\n", "|").split("|")
STARTS = ["https://a.example/start?via=oauth", "http://localhost:3000/", "http://127.0.0.1/a", "http://[::1]/"]
NO_STARTS = ["http://reading.example/start", "http://localhost.example/", "http://127.0.0.2/"]


def test_a_page_is_https_or_http_and_a_sign_in_starts_at_https_or_on_this_machine() -> None:
    def refused(address: str, *fields: str) -> set[str]:
        try:
            Application(name="A", redirect_uris=CALLBACK, **dict.fromkeys(fields, address)).clean_fields()
        except ValidationError as error:
            return {*error.message_dict}
        return set()

    assert [each for each in NO_PAGES if refused(each, *PAGES) != {*PAGES}] == []
    assert not refused("http://intranet.example/a?b=c#d", "homepage") | refused(WHOLLY_CYRILLIC, "tos_uri")
    assert [each for each in STARTS + NO_STARTS if refused(each, "initiate_login_uri")] == NO_STARTS


GOOD = [
    "https://app.example/callback",
    "https://app.example",
    "https://app.example:8443/cb?tenant=7&x=%2F",
    "https://xn--bcher-kva.example/cb",
    "http://localhost:3000/cb",
    "http://127.0.0.1:9201/",
    "http://[::1]:9201/cb",
    "com.example.app:/callback",
    "com.example.app://signed-in/back",
]
# With a part of the reason.
BAD = {
    "HTTPS://app.example/cb": "the scheme in lower case",
    "http://app.example/cb": "http is possible on this machine only",
    "https://app.example/cb#": "fragment",
    "https://*.app.example/cb": "wildcards",
    "https://user@app.example/cb": "user name",
    "https://app.example/a/../cb": "path",
    "https://app.example/%2E./cb": "path",
    "https://app.example/c b": "spaces",
    "https://bücher.example/cb": "punycode",
    "https://app.example\\@evil.example": "which no address may hold",
    "https://App.example/cb": "lower case",
    "https:///cb": "no host",
    "https://app.example:0/cb": "port",
    "https://app.example:/cb": "port",
    "https://[::1/cb": "can't be read",
    "https://2130706433/cb": "not a name",
    "https://%65vil.example/cb": "not a name",
    "https://app.example/cb?a=1&st%61te=x": "its query holds",
    "javascript:alert(1)": "use https",
    "myapp:/cb": "use https",
    "com.example.app:callback": "path after the scheme",
    "/callback": "no scheme",
    "app.example/callback": "no scheme; write https://host/path",
    "//[::1]/cb": "no scheme; write http://host/path",
    "localhost.example/cb": "no scheme; write https://host/path",
    "http:/localhost:3000/cb": "no host; write http://host/path",
    "https://app.example/" + "a" * 2000: "longer than",
}
# That can be registered and are rarely meant.
HINTS = {
    **dict.fromkeys([GOOD[0], *GOOD[6:]], ""),
    "http://[::1]/cb": "Without a port, this is port 80.",
    "https://reading.example": "A bare host",
    "https://reading.example/": "ends with a slash",
    "https://reading.example:443/cb": "leave :443 out",
    "https://10.0.4.17/cb": "A private network",
    "https://intranet/cb": "A private network",
    "https://printer.local/cb": "A private network",
    "https://xn--bcher-kva.example/cb": "reads bücher.example",
    "https://xn--ls8h.example/cb": "",
}


def test_an_address_that_browsers_can_return_to_is_registered_and_any_other_refused_with_its_reason():
    assert {uri: registration_problem(uri) for uri in GOOD} == dict.fromkeys(GOOD)
    assert [uri for uri, part in BAD.items() if part not in (registration_problem(uri) or "")] == []


def test_an_address_has_the_hint_that_fits():
    said = {uri: " ".join(hints(uri, is_public=False)) for uri in HINTS}
    assert [uri for uri, part in HINTS.items() if part not in said[uri] or bool(part) is not bool(said[uri])] == []
    assert hints("http://[::1]/cb", is_public=True) == []


def test_lines_are_read_without_what_surrounds_them_and_every_bad_one_gets_its_own_message():
    lines = split_lines(" http://a.example/ \r\n\n https://ok.example/\nhttps://ok.example/\n ftp://b.example/\n")
    assert lines == ["http://a.example/", "https://ok.example/", "https://ok.example/", "ftp://b.example/"]
    with pytest.raises(ValidationError) as caught:
        validate_lines("\n".join(lines))
    assert [message.partition(": ")[0] for message in caught.value.messages] == lines[:2] + lines[3:]
    assert "more than once" in caught.value.messages[1]
    with pytest.raises(ValidationError, match="at least one"):
        validate_lines(" ")


APP = "https://app.example.org/oauth/callback"
LOCAL = "http://localhost:3000/cb"
OWN = "com.example.app:/callback"

# The registered address, the sent one, the classes.
PAIRS = [
    (APP, "http://app.example.org/oauth/callback", "scheme"),
    (APP, "http://www.app.example.org:8080/oauth/callback/", "scheme www port slash"),
    (APP, "app.example.org/oauth/callback", "scheme_missing"),
    (OWN, "com.example.app://callback", "scheme"),
    (APP, "https://App.Example.org/oauth/callback", "case"),
    (APP, "https://www.app.example.org/oauth/callback", "www"),
    (LOCAL, "http://127.0.0.1:3000/cb", "loopback"),
    (LOCAL, "http://localhost:3001/cb", "loopback_port"),
    (APP, "https://app.example.org:443/oauth/callback", "port"),
    (APP, "https://app.example.org/oauth/callback/", "slash"),
    (APP, "https://app.example.org/oauth/calback", "path"),
    (APP, "https://app.exmaple.org/oauth/callback", "host"),
    (APP, "https://user:pw@app.example.org/oauth/callback", "userinfo"),
    ("https://app.example.org/cb?tenant=1", "https://app.example.org/cb", "query"),
    (APP, "https://app.example.org/oauth/callback#", "fragment"),
    (APP, "https%3A%2F%2Fapp.example.org%2Foauth%2Fcallback", "encoded_twice"),
    ("https://app.example.org/cb?a=1&b=2", "https://app.example.org/cb?a=1", "not_encoded"),
    (APP, " https://app.example.org/oauth/callback\r\n", "whitespace"),
    (APP, "https://app.example.org/oauth/callback\u200b", "whitespace"),
    (APP, '"https://app.example.org/oauth/callback"', "quotes"),
    ("https://xn--bcher-kva.example/cb", "https://bücher.example/cb", "host"),
    (APP, "https://evil.test/steal", "another_host"),
]


@pytest.mark.parametrize(("registered", "sent", "classes"), PAIRS)
def test_the_classes_of_a_difference(registered: str, sent: str, classes: str) -> None:
    nearest = "" if classes == "another_host" else registered
    assert compare(sent, ["https://other.test/somewhere", registered]) == (nearest, classes.split())
    assert compare(registered, [APP, registered]) == (registered, []), "nothing differs from itself"


def test_a_port_that_a_public_application_may_choose_is_no_difference() -> None:
    for sent, differs in (
        ("http://localhost:3001/cbx", "path"),
        ("http://127.0.0.1:3001/cb", "loopback"),
        ("https://localhost:3001/cb", "scheme"),
        ("http://localhost:03001/cb", "loopback_port"),
    ):
        assert compare(sent, ["http://localhost/cb"], is_public=True)[1] == [differs]
    assert compare("http://localhost:3001/cb", [LOCAL], is_public=True)[1] == ["loopback_port"]


def test_the_nearest_of_several_is_meant_and_each_difference_has_its_advice() -> None:
    both = [APP, "https://app.example.org/oauth/callback/google", "https://staging.example.org/oauth/callback"]
    assert compare("https://app.example.org/oauth/callback/gogle", both)[0] == both[1]
    assert compare("https://staging.example.org/oauth/callback/", both)[0] == both[2]
    sent = "https://app.example.com/callback?next=%2Fdashboard%2Forders%2F4711"
    other = "https://staging.example.com/oauth/callback"  # which has more letters of it
    assert compare(sent, [other, "https://app.example.com/callback"])[1] == ["query"]
    assert compare("anything", []) == ("", ["another_host"])
    assert {name for *_, classes in PAIRS for name in classes.split()} == REASONS.keys()
    assert reason(["port", "slash"]) == f"{REASONS['port']} {REASONS['slash']}"


def test_what_may_be_a_credential_is_masked() -> None:
    assert masked("https://user:pw@h.example:8/p?code=c&a=&b#token") == "https://…@h.example:8/p?code=…&a=…&…#…"
    assert masked("https://h.example/p?secret") == "https://h.example/p?…"
    unmasked = ["https://h.example/users/@me", OWN, APP]
    assert [masked(address) for address in unmasked] == unmasked
    assert masked("/p\x00\ud800") == "/p??"
    assert len(masked("https://h.example/" + "a" * 100_000)) == 500
    assert [sent for sent in WRITTEN_WRONG if re.search("SEC|RET", masked(sent))] == []


WRITTEN_WRONG = [
    " https://user:SECRET@h.example/cb",
    "user:SECRET@h.example/cb",
    "//user:SECRET@h.example/cb",
    "https:/user:SECRET@h.example/cb",
    "https:\\\\user:SECRET@h.example/cb",
    "https:user:SECRET@h.example/cb",
    "https://user:SEC/RET@h.example/cb",
    "https://user@example.com:SECRET@h.example/cb",
    "https%3A%2F%2Fuser%3ASECRET%40h.example%2Fcb%3Fcode%3DSECRET",
    "https://h.example/cb?SECRET&a=b",
    "https://h.example/cb?a=1&SECRET",
    "https://h.example/cb?a=1;b=SECRET",
    "https://h.example/cb?code=x=SECRET",
    "https://h.example/cb#SECRET?x",
    "https://h.example/cb%3Fcode=SECRET",
    "https://h.example/cb%3fcode%3DSECRET",
    "https://h.example/cb;token=SECRET",
    "https://h.example/cb&code=SECRET",
]


@given(st.text(st.characters(), max_size=200))
@example("https://app.example.org/" + "ab" * 50_000)
@example("https://" + "a." * 50_000)
@example("https://" + ".".join(["漢" * 14] * 30) + "/cb")
def test_no_text_is_too_odd(text: str) -> None:
    masked(text)
    compare(text, [APP, LOCAL, OWN])
