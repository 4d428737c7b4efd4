"""Check the record of a refused request against the application's present registration. Nothing is written."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import AuditEntry
from oauth_bridge.activity_causes import UNCONFIRMED
from oauth_bridge.activity_models import Step
from oauth_bridge.models import Application
from oauth_bridge.page_addresses import shown_host
from oauth_bridge.redirect_uri_masking import MASK
from oauth_bridge.redirect_uri_registration import MAX_COUNT, registration_problem
from oauth_bridge.storage import admission
from oauth_bridge.storage.activity_reading import Entry

# Causes in the application's link. No change of the registration removes these causes.
OF_THE_LINK = {
    "response_type",
    "response_type_missing",
    "challenge_missing",
    "challenge_method_missing",
    "challenge_plain",
    "challenge_method_other",
    "challenge_malformed",
    "client_id_missing",
    "redirect_uri_missing",
    "repeated",
    "malformed",
    "request_object",
    "request_uri",
    "response_mode",
    "openid_misspelt",
    "nonce_too_long",
    "prompt_none",
    "max_age",
    "claims_malformed",
}
OF_NO_APPLICATION = {"client_unknown", "client_deleted"}
OF_THE_ADDRESS = {"no_verified_email", UNCONFIRMED}
# The limits that end when an administrator unlocks the account.
OF_THE_ACCOUNT = {"sign_in_limited_account", "factor_limited"}
# The causes that this module can check. Other causes give the result "unknown".
REPEATED = OF_THE_LINK | {
    *OF_NO_APPLICATION,
    "client_disabled",
    "redirect_uri_mismatch",
    "challenge_needed",
    *OF_THE_ADDRESS,
    "not_admitted",
}


class Check(NamedTuple):
    """The result of a check. `kind` is "yes", "no", "beware", or "unknown" if the check cannot be repeated."""

    kind: str
    text: str


def checks(entry: Entry, application: Application | None) -> list[Check]:
    """Check the recorded request again. The results are in the order of the protocol."""
    if entry.cause in OF_NO_APPLICATION:  # the record of an exchange belongs to the application whose code was sent
        sent = entry.detail.get("parameters", {}).get("client_id", "")
        application = Application.objects.filter(client_id=sent).first()
    if application is None and (entry.client_id or entry.cause in OF_NO_APPLICATION):
        return [Check("no", _("No application has this client ID"))]
    found = _of_application(entry, application) if application else []
    if entry.cause in OF_THE_LINK:
        found.append(Check("no", _("The same link fails again: change it in the application")))
    if entry.cause in OF_THE_ADDRESS:
        found.append(_of_address(entry))
    if entry.step in (Step.SIGN_IN, Step.SECOND_FACTOR) and limit_ends_at(entry):
        over = limit_over(entry)
        found.append(Check("yes", over) if over else Check("no", _("The limit has not ended yet")))
        found.append(Check("unknown", _("What was typed can’t be checked again: it is not kept")))
    elif entry.cause not in REPEATED and entry.step not in (Step.EXCHANGE, Step.PROFILE):
        found.append(Check("unknown", _("What was refused can’t be checked again here")))
    if entry.step == Step.PROFILE:
        found.append(Check("unknown", _("The access token can’t be checked again: only its digest is kept")))
    return found


def passes(found: list[Check]) -> str:
    """Return "no" if a check fails, and "yes" if all checks pass.

    If a check cannot be repeated, return "partly" if others pass. Without a check that passes, return "unknown".
    """
    kinds = {check.kind for check in found}
    if "no" in kinds:
        return "no"
    if "yes" not in kinds:
        return "unknown"
    return "partly" if "unknown" in kinds else "yes"


def is_limit(cause: str) -> bool:
    return "limited" in cause or cause.startswith("throttled")


def limit_ends_at(entry: Entry) -> datetime | None:
    """Return the end of the limit that refused the request; None for another cause."""
    seconds = entry.detail.get("seconds")
    return entry.at + timedelta(seconds=seconds) if isinstance(seconds, int) and is_limit(entry.cause) else None


def limit_over(entry: Entry) -> str:
    """Return the sentence that the limit has ended; empty if the limit holds, or if no end is known."""
    end = limit_ends_at(entry)
    if end is None:
        return ""
    if end <= timezone.now():
        return _("The limit has ended")
    unlocked = AuditEntry.objects.filter(action="account_unlocked", kind="person", key=str(entry.person_id))
    is_unlocked = entry.cause in OF_THE_ACCOUNT and unlocked.filter(at__gt=entry.at).exists()
    return _("The account has been unlocked since") if is_unlocked else ""


def _of_application(entry: Entry, application: Application) -> list[Check]:
    found = [
        Check("yes", _("The client ID is that of %(name)s, and it is switched on") % {"name": application.name})
        if application.is_enabled
        else Check("no", _("The application is switched off"))
    ]
    if sent := entry.detail.get("sent"):
        found.append(_address(sent, application))
    if entry.cause == "challenge_needed":
        found.append(
            Check("no", _("It is public, so the link needs PKCE"))
            if application.is_public
            else Check("yes", _("It is confidential, so PKCE is not needed"))
        )
    found += _of_person(entry, application)
    return found + _of_exchange(application) if entry.step == Step.EXCHANGE else found


def _address(sent: str, application: Application) -> Check:
    if MASK in sent:
        return Check("unknown", _("The callback address had values that are masked, so it can’t be compared again"))
    if application.is_callback(sent):
        return Check("yes", _("The callback address is registered"))
    return Check("no", _("The callback address is still not registered"))


def _of_person(entry: Entry, application: Application) -> list[Check]:
    if not application.is_restricted:
        return [Check("yes", _("Everybody may use this application"))]
    if entry.person_id is None:
        return [Check("unknown", _("Only people in its groups may use it"))]
    person = get_user_model().objects.filter(pk=entry.person_id).first()
    if person is None:
        return [Check("no", _("The person’s account is gone"))]
    if admission.is_admitted(person, application):
        return [Check("yes", _("The person is in one of its groups"))]
    return [Check("no", _("The person is in none of its groups"))]


def _of_address(entry: Entry) -> Check:
    person = get_user_model().objects.filter(pk=entry.person_id).first() if entry.person_id else None
    if person is None:
        return Check("no", _("The person’s account is gone"))
    if person.email_verified_at:
        return Check("yes", _("The person’s address is confirmed"))
    return Check("no", _("The person’s address is still not confirmed"))


def _of_exchange(application: Application) -> list[Check]:
    found = []
    if not application.is_public:
        works = any(secret.works for secret in application.secrets.all())
        found.append(
            Check("yes", _("It has a client secret that works"))
            if works
            else Check("no", _("It has no client secret that works"))
        )
        found.append(Check("unknown", _("The secret that was sent can’t be checked again: it is not kept")))
    found.append(Check("unknown", _("The code can’t be checked again: a code works once, for ten minutes")))
    return found


def addition(sent: str, application: Application, *, with_others: bool) -> list[Check]:
    """Check whether the address may be registered. A result of the kind "no" forbids the registration.

    `with_others`: also check whether another application has registered the address. Only administrators who see all
    applications may know the result.
    """
    if MASK in sent:
        return [Check("no", _("Parts of it are masked, so it can’t be added from here"))]
    if application.is_callback(sent):
        return [Check("yes", _("It is registered meanwhile"))]
    if problem := registration_problem(sent):
        return [Check("no", _("It can’t be registered: %(problem)s") % {"problem": problem})]
    if len(application.callback_addresses) >= MAX_COUNT:
        return [Check("no", _("There are as many addresses as an application can have"))]
    found = [Check("yes", _("It can be registered: https or this machine, no fragment, no password in it"))]
    host = shown_host(sent)
    if with_others:
        found.append(_of_others(sent, application))
    if host not in {shown_host(address) for address in application.callback_addresses}:
        text = _("Another host. Whoever runs %(host)s gets the sign-ins of everybody who uses %(name)s.")
        found.append(Check("beware", text % {"host": host or sent, "name": application.name}))
    return found


def _of_others(sent: str, application: Application) -> Check:
    others = Application.objects.exclude(pk=application.pk).filter(redirect_uris__contains=sent)
    if any(sent in other.callback_addresses for other in others[:100]):
        return Check("beware", _("Another application has registered it, too"))
    return Check("yes", _("No other application has registered it"))
