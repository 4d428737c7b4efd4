"""One mailbox is one account: every way in brings an e-mail address into the same form, or says what is wrong. D26."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.mail.message import sanitize_address
from django.core.management import CommandError, call_command
from django.test import Client

from accounts import email_addresses
from accounts.email_addresses import normalise_email
from accounts.models import User
from tests.contract_coverage import contract
from tests.factories import PASSWORD
from tests.pages import admin_browser, ask_for_link, html_of, sign_in, sign_up, text_of

JOINED = "xn--11baa7t235h"  # with a joiner after a virama, which belongs to the label
FORMS = {
    "m@straße.example": "m@xn--strae-oqa.example",
    "m@STRAẞE.example": "m@xn--strae-oqa.example",
    "Eva@BÜCHER.Example": "eva@xn--bcher-kva.example",
    "eva@bu\u0308cher.example": "eva@xn--bcher-kva.example",
    "EVA@XN--Bcher-KVA.example": "eva@xn--bcher-kva.example",
    "eva@bücher。example": "eva@xn--bcher-kva.example",
    "Ｅｖａ＠ｂｕｅｃｈｅｒ．ｅｘａｍｐｌｅ": "eva@buecher.example",
    "m@ΟΔΟΣ.example": "m@xn--pxavbq.example",  # a final sigma would be another owner's domain
    "\u212aate@example.com": "kate@example.com",  # the Kelvin sign
    "zoe+a@r3---sn.example": "zoe+a@r3---sn.example",
    "m@\u0915\u0915\u094d\u200d\u0915.example": f"m@{JOINED}.example",
}
UNSEEN = (
    "\u200b\u00ad\u200c\u200d\ufeff\u2060\u200e\u200f\u202e\u2066\ufe0f\u034f\u3164\u2800\U000e0061\U000e0100\u0000\t"
)
UNSEEN_SENTENCE = str(email_addresses.UNSEEN)
LOCAL_SENTENCE = str(email_addresses.NOT_A_LOCAL_PART)
DOMAIN_SENTENCE = str(email_addresses.NOT_A_DOMAIN)
REFUSED = {
    "ıris@example.com": LOCAL_SENTENCE,
    '"zoe"@example.com': LOCAL_SENTENCE,
    "zoe(me)@example.com": LOCAL_SENTENCE,
    "zo\u00a0e@example.com": UNSEEN_SENTENCE,
    "zoe@exa\u200dmple.com": UNSEEN_SENTENCE,
    "zoe@पेर\u200d.example": UNSEEN_SENTENCE,
    "zoe@xn--abc-.example": DOMAIN_SENTENCE,
    "zoe@xn--ls8h.example": DOMAIN_SENTENCE,
    "zoe@a·b.example": DOMAIN_SENTENCE,
    "zoe@" + "ü" * 70 + ".example": DOMAIN_SENTENCE,
    **dict.fromkeys(
        ("zoe@bücher..example", "zoe@bücher.example.", "zoe@[127.0.0.1]", "@example.com"),
        "Type an e-mail address, like name@example.com.",
    ),
    "z@" + "a." * 150 + "example": "Ensure this value has at most 254 characters (it has 309).",
}


@contract("D26.form")
def test_an_address_has_one_form_in_which_it_is_mailed_too() -> None:
    for typed, form in FORMS.items():
        assert normalise_email(typed) == form, ascii(typed)
        assert normalise_email(form) == form
        assert sanitize_address(form, "utf-8") == form
    for character in UNSEEN:
        assert normalise_email(f"{character}zoe@example.com{character} ") == "zoe@example.com", ascii(character)
        for refused in (f"zo{character}e@example.com", f"zoe@exam{character}ple.com", f"zoe{character}@example.com"):
            with pytest.raises(ValidationError, match=UNSEEN_SENTENCE):
                normalise_email(refused)
    for typed, sentence in REFUSED.items():
        with pytest.raises(ValidationError) as caught:
            normalise_email(typed)
        assert caught.value.messages == [sentence], ascii(typed)


ENTRANCES: list[Callable[[str], Any]] = [
    partial(call_command, "account", "invite", stdout=io.StringIO()),
    lambda typed: admin_browser().post("/admin/accounts/user/add/", {"email": typed}),
    lambda typed: call_command("createsuperuser", "--noinput", email=typed, nickname="Eva"),
    partial(call_command, "account", "create", "--nickname", "Eva", "--password-stdin", stdout=io.StringIO()),
]


@pytest.mark.django_db
@contract("D26.entrances")
@pytest.mark.usefixtures("sign_up_is_open")
def test_every_way_in_stores_and_finds_the_same_account(monkeypatch: Any) -> None:
    form, spellings = "eva@xn--bcher-kva.example", ("eva@bücher.example", "\u200bＥva@XN--BCHER-KVA.example\u00ad")
    for typed, other in (spellings, spellings[::-1]):
        for enter in ENTRANCES:
            User.objects.all().delete()
            monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
            enter(typed)
            assert User.objects.filter(email=form).exists()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
        with pytest.raises(CommandError, match="already"):
            enter(other)
        cache.clear()  # the limits of the mailbox, which is the same
        assert sign_in(Client(), other).status_code == 302
        assert sign_up(Client(), email=other)["Location"].startswith("/accounts/confirm-email")
        assert mail.outbox[-1].subject.startswith("You already have an account")
        ask_for_link(Client(), other)
        assert mail.outbox[-1].recipients() == [form]
        for lookup in (["list", "--search", other], ["show", other]):
            call_command("account", *lookup, stdout=(found := io.StringIO()))
            assert form in found.getvalue()
        administrator = admin_browser()
        assert f"/{User.objects.get(email=form).pk}/" in administrator.get("/admin/find/", {"q": other})["Location"]
        assert form in html_of(administrator.get("/admin/accounts/user/", {"q": other}))


@pytest.mark.django_db
@contract("D26.refused")
@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.parametrize(
    "typed", ["ıris@example.com", "zo\u200be@example.com", "zoe@xn--abc-.example", "zo\0e@example.com"]
)
def test_a_refused_address_is_told_by_each_page_and_command_and_found_nowhere(
    client: Client, typed: str, monkeypatch: Any
) -> None:
    with pytest.raises(ValidationError) as caught:
        normalise_email(typed)
    (sentence,) = caught.value.messages
    page = sign_up(client, email=typed, nickname="Nia")
    assert [page.context["form"][name].value() for name in ("nickname", "email")] == ["Nia", typed]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    for command in (["create", typed, "--nickname", "Z", "--password-stdin"], ["invite", typed]):
        with pytest.raises(CommandError, match=re.escape(sentence)):
            call_command("account", *command)
    with pytest.raises(CommandError, match="There is no account with the address"):
        call_command("account", "show", typed)
    with pytest.raises((CommandError, ValidationError), match=re.escape(sentence)):
        call_command("createsuperuser", "--noinput", email=typed, nickname="Z")
    administrator = admin_browser()
    for path in ("/admin/find/", "/admin/accounts/user/"):
        assert administrator.get(path, {"q": typed}, follow=True).status_code == 200
    assert administrator.get("/admin/activity/", {"who": typed}).status_code in (200, 400)  # 400: a control character
    added = administrator.post("/admin/accounts/user/add/", {"email": typed})
    for answer in (page, sign_in(client, typed), ask_for_link(client, typed), added):
        assert sentence in text_of(answer)
    assert (User.objects.exclude(is_staff=True).exists(), mail.outbox) == (False, [])
