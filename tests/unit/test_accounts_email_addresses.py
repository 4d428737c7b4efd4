"""An e-mail address has one form, in which it is stored, mailed, compared and given out."""

from __future__ import annotations

import io
import json

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.email_addresses import email_to_look_up, normalise_email
from accounts.models import User
from tests.factories import PASSWORD, PersonFactory
from tests.pages import ask_for_link, deliver_all, html_of, mailed_code, mailed_path, sign_in, sign_up, type_code

FORMS = {
    " \u200bEva@Bücher.Example\u200d\n": "eva@xn--bcher-kva.example",
    "eva@XN--BCHER-KVA.example": "eva@xn--bcher-kva.example",
    "m@straße.example": "m@xn--strae-oqa.example",  # never strasse.example, which has another owner
    "m@STRASSE.example": "m@strasse.example",
    "a@ΟΔΟΣ.example": "a@xn--pxavbq.example",  # an upper-case Σ is σ, also at the end of a word
    "a@οδος.example": "a@xn--pxavbm.example",
    "a@نامه\u200cای.example": "a@xn--mgba3gch31f060k.example",  # the joiner is a part of this label
    "a＠ｅｘａｍｐｌｅ。com": "a@example.com",
    "\u212aate@example.com": "kate@example.com",
    "o'neil+tag@exa-mple.co": "o'neil+tag@exa-mple.co",
}
REFUSED = {
    "zoe\u200b@example.com": "invisible character (U+200B)",
    "zo\u00ade@example.com": "invisible character (U+00AD)",
    "zoe\u200d@نامه\u200cای.example": "invisible character (U+200D)",
    "zoe@exam\u200dple.com": "invisible character (U+200D)",
    "zoe@exam\u2060ple.com": "invisible character (U+2060)",
    "zoe@example\ufe0f.com": "invisible character (U+FE0F)",
    "zo\U000e0041e@example.com": "invisible character (U+E0041)",
    "zo\u3164e@example.com": "invisible character (U+1160)",
    "ıris@example.com": "The part before the @ has “ı”.",
    "İnfo@example.com": "The part before the @ has “İ”.",
    "e\u0301va@example.com": "The part before the @ has “é”.",
    "eva@xn--strasse-.example": "“xn--strasse-.example” can't be the domain",
    "eva@☃.example": "“☃.example” can't be the domain",
    f"eva@{'ü' * 70}.example": "can't be the domain",
}


@pytest.mark.contract("D26.form")
def test_an_address_is_brought_into_its_one_form_or_refused() -> None:
    assert {typed: normalise_email(typed) for typed in FORMS} == FORMS
    assert [normalise_email(form) for form in FORMS.values()] == list(FORMS.values())
    for typed, sentence in REFUSED.items():
        with pytest.raises(ValidationError) as raised:
            normalise_email(typed)
        assert sentence in raised.value.messages[0]
        assert email_to_look_up(typed) not in FORMS.values()


@pytest.mark.django_db
@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.contract("D26.everywhere")
def test_every_way_in_stores_mails_and_finds_the_one_form(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_up(client, email="Mia@Straße.example")
    deliver_all()
    assert mail.outbox[-1].to == ["mia@xn--strae-oqa.example"]
    type_code(client, mailed_code())
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD))
    call_command("account", "create", "Bo@Bücher.example", "--nickname", "Bo", "--password-stdin", stdout=io.StringIO())
    call_command(
        "createsuperuser", interactive=False, email="Al@例え。example", nickname="Al", stdout=io.StringIO(), verbosity=0
    )
    root = Client()
    root.force_login(User.objects.get(is_superuser=True))
    assert set(User.objects.values_list("email", flat=True)) == {
        "mia@xn--strae-oqa.example",
        "bo@xn--bcher-kva.example",
        "al@xn--r8jz45g.example",
    }
    shown = io.StringIO()
    call_command("account", "show", "BO@bücher.example", "--json", stdout=shown)
    call_command("account", "list", "--search", "bücher.example", "--json", stdout=shown)
    assert shown.getvalue().count("bo@xn--bcher-kva.example") == 2
    invited = io.StringIO()
    call_command("account", "invite", "New@Bücher.example", "--json", stdout=invited)
    assert json.loads(invited.getvalue())["email"] == "new@xn--bcher-kva.example"
    assert sign_in(Client(), "bo@bücher.example")["Location"] == "/accounts/profile"
    assert "mia@xn--strae-oqa.example" in html_of(root.get("/admin/accounts/user/", {"q": "mia@straße.example"}))
    ask_for_link(Client(), "Bo@BÜCHER.example")
    deliver_all()
    assert mail.outbox[-1].to == ["bo@xn--bcher-kva.example"]
    assert Client().get(mailed_path(), follow=True).status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("sign_up_is_open")
def test_a_refused_address_is_named_and_what_was_typed_stays(client: Client) -> None:
    PersonFactory(email="zoe@example.com")
    for typed, sentence in REFUSED.items():
        page = sign_up(client, email=typed, nickname="Zo")
        assert sentence in page.context["form"].errors["email"][0]
        assert page.context["form"]["nickname"].value() == "Zo"
        with pytest.raises(CommandError, match="There is no account with the address"):
            call_command("account", "show", typed)
        with pytest.raises(CommandError) as raised:
            call_command("account", "invite", typed)
        assert sentence in str(raised.value)
        with pytest.raises(CommandError):
            call_command("createsuperuser", interactive=False, email=typed, nickname="Zo")
        assert "Location" not in sign_in(Client(), typed)
    assert User.objects.count() == 1
