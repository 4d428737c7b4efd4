"""Messages of Django and allauth are in the words of this service, and address the person as its other pages do."""

from __future__ import annotations

import html

import pytest
from django.test import Client

from tests.factories import PASSWORD, PersonFactory
from tests.pages import sign_in


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "text"),
    {
        "de": "Geben Sie beide Male dasselbe Passwort ein.",
        "es": "Escribe la misma contraseña las dos veces.",
        "zh-hans": "两次输入的密码必须相同。",
    }.items(),
)
def test_an_error_of_allauth_is_in_our_words(client: Client, language: str, text: str) -> None:
    person = PersonFactory()
    sign_in(client, person.email)
    form = {"oldpassword": PASSWORD, "password1": "another battery staple", "password2": "a different one"}
    page = client.post("/accounts/password/change", form, headers={"accept-language": language})
    assert text in html.unescape(page.content.decode())
