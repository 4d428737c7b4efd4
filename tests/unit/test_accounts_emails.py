"""The texts of e-mails, as plain text and as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone, translation

from accounts.mail.composing import compose
from accounts.mail.outbox import Email

FOLDER = Path(settings.BASE_DIR) / "templates" / "account" / "email"
KINDS = sorted(path.name.removesuffix("_subject.txt") for path in FOLDER.glob("*_subject.txt"))
HOSTILE = 'Eve <img src=x> & "Co" http://testserver.mallory.example/'


def composed(kind: str, **changes: Any) -> Email:
    facts = {"now": timezone.now(), "expires_at": timezone.now(), "browser": "Firefox on Linux", "code": "R7K-2MX"}
    facts |= {"nickname": "Alice", "application": "Photo Book", "applications_address": "http://testserver/accounts/x"}
    facts |= {"password_reset_url": "http://testserver/accounts/password/reset/key", "to_email": "new@example.com"}
    facts |= {"from_email": "old@example.com", "left": 9}
    facts |= {"facts": [{"name": "nickname", "label": "Nickname", "value": changes.get("nickname", "Alice")}]}
    return compose(kind, "alice@example.com", facts | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_each_mail_has_two_parts_that_say_the_same_and_names_become_no_link(kind: str) -> None:
    message = composed(kind)
    assert message.subject
    assert "\n" not in message.subject
    plain = re.sub(r"\s+", "", message.text)
    shown = re.sub(r"<head>.*</head>|<[^>]+>|\s+", "", message.html, flags=re.DOTALL)
    assert shown == re.sub(r"--(?=DelegatedSign-In)", "", plain)
    assert max(len(line) for line in message.text.splitlines()) <= 72
    assert "{{" not in message.text
    message = composed(kind, nickname=HOSTILE, application=HOSTILE)
    assert "<img" not in message.html
    assert all(link.startswith("http://testserver/") for link in re.findall(r'href="([^"]*)"', message.html))
    if HOSTILE[:3] in message.text:
        assert 'Eve <img src=x> & "Co"' in re.sub(r"\s+", " ", message.text)
        assert "Eve &lt;img src=x&gt; &amp; &quot;Co&quot;" in message.html


def test_a_code_is_in_the_subject_and_alone_on_a_line_and_not_turned_round_in_arabic() -> None:
    for kind in ("email_confirmation", "email_confirmation_signup"):
        message = composed(kind)
        assert message.subject == "R7K-2MX is your code for Delegated Sign-In"
        assert re.search(r"^ {4}R7K-2MX$", message.text, re.MULTILINE)
    with translation.override("ar"):
        message = composed("email_confirmation")
        assert '<bdi dir="ltr">R7K-2MX</bdi>' in message.html
        assert message.subject.endswith("\u2066R7K-2MX\u2069")


def test_a_security_mail_leads_to_a_new_password_and_to_the_security_page() -> None:
    for kind in KINDS:
        if kind.startswith(("factors_", "recovery_", "totp_", "webauthn_", "new_browser")):
            lines = composed(kind).text.splitlines()
            assert {"http://testserver/accounts/password/reset", "http://testserver/accounts/security"} <= set(lines)


def test_a_subject_keeps_its_no_break_spaces_and_no_line_end() -> None:
    subject = composed("application_allowed", application="Photo\u00a0Book\u202f!\r\nBcc: eve\u2028\x85x").subject
    assert subject.startswith("You allowed Photo\u00a0Book\u202f! Bcc: eve x to use")
