"""Names and addresses of an application that could deceive are refused, or shown as they are. D7."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.test import Client

from oauth_bridge.applications.look_alikes import skeleton
from oauth_bridge.callback_addresses.registration import shown_host
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
