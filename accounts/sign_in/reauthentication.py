"""Before sensitive pages, require a recent proof of identity, such as a password or a passkey."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from allauth.account import views as library
from allauth.account.adapter import get_adapter
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY, get_authentication_records
from allauth.account.signals import authentication_step_completed
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from accounts import return_path
from accounts.pages import AccountPageMixin, RetryLaterMixin

View = Callable[..., HttpResponseBase]

ONE_FACTOR = "1"
TWO_FACTORS = "2"

# `pop`, proof of possession: a passkey may be in hardware or in software.
_METHODS = {"password": "pwd", "password_reset": "otp", "totp": "otp", "recovery_codes": "otp", "webauthn": "pop"}


class Proof(NamedTuple):
    """The proofs of identity in the session. `at` is the Unix time of the latest proof, or None without a proof."""

    at: float | None
    amr: list[str]  # methods of RFC 8176, of all proofs
    acr: str  # ONE_FACTOR, or TWO_FACTORS after a second factor or a passkey


def proof_of(request: HttpRequest) -> Proof:
    return _proof(get_authentication_records(request, request.user))


def _proof(records: Sequence[dict[str, Any]]) -> Proof:
    kinds = [record.get("type") or record["method"] for record in records]
    amr = list(dict.fromkeys(_METHODS[kind] for kind in kinds if kind in _METHODS))
    has_passkey = any(record.get("passwordless") for record in records)  # its device verifies the person
    is_strong = has_passkey or len({record["method"] == "mfa" for record in records}) > 1
    if is_strong:
        amr.append("mfa")
    return Proof(records[-1]["at"] if records else None, amr, TWO_FACTORS if is_strong else ONE_FACTOR)


def is_fresh_enough(request: HttpRequest) -> bool:
    """Return whether the latest proof is recent. For a POST, the proof may be older, so that typed text is not lost."""
    proved_at = proof_of(request).at
    age = float("inf") if proved_at is None else time.time() - proved_at
    times = 3 if request.method == "POST" else 1
    return 0 <= age < times * settings.ACCOUNT_REAUTHENTICATION_TIMEOUT


@receiver(authentication_step_completed)
def keep_newest_records(request: HttpRequest, **kwargs: object) -> None:
    """Keep only the newest proof of each kind in the session. allauth would keep all proofs."""
    newest: dict[tuple[object, ...], object] = {}
    for record in request.session.get(AUTHENTICATION_METHODS_SESSION_KEY, []):
        kind = tuple(record.get(name) for name in ("method", "type", "passwordless", "reauthenticated"))
        newest.pop(kind, None)
        newest[kind] = record
    request.session[AUTHENTICATION_METHODS_SESSION_KEY] = list(newest.values())


def fresh_sign_in_required(view: View) -> View:
    @login_required
    @wraps(view)
    def checked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return proof_first(request) or view(request, *args, **kwargs)

    return checked


def proof_first(request: HttpRequest) -> HttpResponseBase | None:
    """Return None if the latest proof is recent and the person has a means of proof, otherwise a redirect."""
    return None if is_fresh_enough(request) and _can_prove(request) else ask_for_proof(request)


def ask_for_proof(request: HttpRequest) -> HttpResponseBase:
    return redirect(proof_url(request, request.get_full_path()))


def proof_url(request: HttpRequest, return_to: str) -> str:
    """Return the URL of the page for a proof, or of the page for a reset link if the person has no means of proof."""
    if not _can_prove(request):
        return reverse("account_reset_password")  # a stolen session must not be enough to set the first password
    return return_path.url_of(reverse("account_reauthenticate"), return_to)


def _can_prove(request: HttpRequest) -> bool:
    return bool(get_adapter().get_reauthentication_methods(request.user))


@method_decorator(never_cache, name="dispatch")
class ConfirmView(AccountPageMixin, RetryLaterMixin, library.ReauthenticateView):
    template_name = "accounts/confirm.html"
