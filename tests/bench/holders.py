"""Accounts that the attacker owns, with the most of everything that a person may have; and a picture of hers."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

PASSWORD = "the password of an attacker"
# The most that one person may have. The service's own limits are higher or lower than these only by mistake: a run
# shows it, because each is added here as the service stores it.
PASSKEYS, SESSIONS = 20, 100
PICTURE_PIXELS, SCANS = 4000, 700
EXTRAS = {"passkeys": "mallory-passkeys", "sessions": "mallory-sessions", "first": "mallory-1", "second": "mallory-2"}


@dataclass(frozen=True)
class Holders:
    """E-mail addresses of the accounts, of people who are not the attacker, and a file that costs much to read."""

    passkeys: str
    sessions: str
    uploaders: tuple[str, str]
    addresses: tuple[str, ...]
    picture: bytes = field(repr=False)


def create(domain: str, addresses: tuple[str, ...]) -> Holders:
    from allauth.mfa.models import Authenticator
    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from tests.bench import stack

    people: dict[str, Any] = {
        name: get_user_model().objects.create_user(
            f"{extra}@{domain}", PASSWORD, nickname=extra, email_verified_at=timezone.now()
        )
        for name, extra in EXTRAS.items()
    }
    for number in range(PASSKEYS):
        Authenticator.objects.create(user=people["passkeys"], type="webauthn", data=_passkey(number))
    stack.sign_in([people["sessions"]] * SESSIONS)
    emails = {name: person.email for name, person in people.items()}
    return Holders(
        emails["passkeys"], emails["sessions"], (emails["first"], emails["second"]), addresses, repeated_scans()
    )


def _passkey(number: int) -> dict[str, Any]:
    from tests.pages import Device

    device = Device("http://localhost")
    made = device.made({"user": {"id": "bWFsbG9yeQ"}, "rp": {"id": "localhost"}, "challenge": "bWFsbG9yeQ"})
    return {"name": f"Key {number}", "credential": json.loads(json.dumps(made))}


def repeated_scans(pixels: int = PICTURE_PIXELS, times: int = SCANS) -> bytes:
    """A progressive JPEG, small as a file, whose shortest scan is repeated. ITU T.81, B.1.1.2 and B.2.3."""
    from PIL import Image

    plain = io.BytesIO()
    Image.linear_gradient("L").resize((pixels, pixels)).save(plain, "JPEG", progressive=True, quality=10)
    data = plain.getvalue()
    starts = [index for index in range(len(data) - 1) if data[index : index + 2] == b"\xff\xda"]
    scans = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data) - 2], strict=True)]
    shortest = min(scans, key=len)
    if table := shortest.find(b"\xff\xc4", 2) + 1:  # the Huffman table of the next scan
        shortest = shortest[: table - 1]
    return data[:-2] + shortest * times + data[-2:]
