"""The errors of this package, with their sentences. The cause of a refusal is only in log and activity records."""

from __future__ import annotations

from math import ceil
from typing import Any, cast
from uuid import UUID

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext

from config.infrastructure import errors
from config.infrastructure.errors import Fault, RequestError


class AccountFault(Fault):
    """The faults of sign-in and of account pages. If `fix` is empty, `problem` may contain the advice."""

    def __init__(self, status: int, problem: str, fix: str = "") -> None:
        super().__init__(status, errors.ERRORS.get(status, "access_denied"), problem, fix)

    def translate(self, **details: object) -> str:
        """Return the sentence in the active language. `seconds` also fills in the placeholder `when`, in words."""
        if "seconds" in details:
            details["when"] = duration(cast(int, details["seconds"]))
        return super().translate() % details

    # Limits. The cause of REQUESTS_LIMITED names the limit.
    REQUESTS_LIMITED = (
        429,
        _("Too many requests came from your network in a short time."),
        _("Try again in %(when)s."),
    )
    SIGN_IN_LIMITED = (
        429,
        _(
            "Too many sign-ins have failed, perhaps not yours. Try again in %(when)s,"
            " or choose a new password with the link below, which works at once."
        ),
    )
    ACCOUNT_LIMITED = (429, _("This account has signed in very often in a short time."), _("Try again in %(when)s."))
    FACTOR_LIMITED = (
        429,
        _(
            "Too many attempts have failed, perhaps not yours. Try again in %(when)s, or in a browser in which you have"
            " signed in before."
        ),
    )
    NEW_PASSKEYS_LIMITED = (429, _("You have added many passkeys in a short time. Try again in %(when)s."))
    PICTURES_LIMITED = 429, _("You have tried many pictures in a short time. Try again in %(when)s.")
    # No page shows RESET_MAIL_LIMITED: the person sees the same page as after a sent e-mail.
    RESET_MAIL_LIMITED = 302, _("The address has got many links for a new password."), _("Use one of them.")
    # SIGN_IN_TOO_SOON has allauth's sentence. The password was right, but the next code cannot be sent yet.
    SIGN_IN_TOO_SOON = 200, "Too many failed login attempts. Try again later."

    # Passwords
    PASSWORD_WRONG = 200, _("The e-mail address or the password is not right.")
    PRESENT_PASSWORD_WRONG = 200, _("This is not your password.")
    PASSWORD_BUSY = (
        503,
        _("Too many people are signing in at this moment. Wait a few seconds, then type your password again."),
    )
    NEW_PASSWORD_WEAK = 200, _("The new password breaks a rule for passwords."), _("Choose another one.")
    RESET_LINK_INVALID = (
        200,
        _("The link for a new password has been used, has expired, or is not ours."),
        _("Ask for a new one."),
    )

    # Accounts
    ACCOUNT_INACTIVE = 403, "The account is switched off.", "An administrator can switch it on again."
    SIGN_IN_ENDED = (
        302,
        _("The account's password, address or second factor changed during the sign-in."),
        _("Start again."),
    )
    SIGN_UP_CLOSED = 200, "New accounts are by invitation, or not possible.", "Ask for an invitation."
    NOT_INVITED = 200, _("The invitation is for another address.")
    # A sign-up never shows ADDRESS_TAKEN.
    ADDRESS_TAKEN = 200, _("Another account uses this address, so yours stays as it is.")
    SAME_ADDRESS = 200, _("This is your address already.")
    ANOTHER_ADDRESS = 200, _("This is not the address of your account.")
    LAST_ADMINISTRATOR = 200, _("You are the only administrator. Make somebody else one first.")

    # Codes and second factors. If a code of an authenticator app was used before, the cause is factor_used.
    MAIL_CODE_WRONG = 200, _("This is not the code we sent. Look at the newest mail from us.")
    MAIL_CODE_EXPIRED = 302, "This browser waits for no code, or no longer.", "Start again."
    APP_CODE_WRONG = (
        200,
        _("This code is not right, or was used before. Wait for the next one, and check the clock of the device."),
    )
    FACTOR_WRONG = 200, _("This is no code of your app, and no recovery code of yours that is still unused.")

    # Passkeys
    PASSKEY_UNREADABLE = 200, _("Your browser sent no passkey. Try again, or use your password.")
    PASSKEY_UNKNOWN = (
        200,
        _("This passkey is not known here, or its answer came too late. Try again, or use your password."),
    )
    PASSKEY_REFUSED = 200, _("The device's answer was not accepted. Try again.")

    # Pictures
    PICTURE_FAILED = (
        200,
        _("The picture could not be read because of a fault on our side. Nothing is saved. Try again later."),
    )
    PICTURES_BUSY = (
        503,
        _("Other pictures are being read at this moment. Wait a few seconds, then choose the picture again."),
    )
    PICTURE_TOO_LARGE = 200, _("This picture is larger than %(count)s MB. Choose a smaller one.")
    PICTURE_TOO_MANY_PIXELS = 200, _("This picture has more than %(count)d megapixels. Choose a smaller one.")
    PICTURE_TOO_COSTLY = 200, _("Reading this picture takes too much work. Choose a smaller one.")
    NOT_A_PICTURE = 200, _("This file is not a picture that can be read. Choose a JPEG, PNG, GIF or WebP picture.")


class FormError(ValidationError):
    """A form error with the fault's sentence in the active language. `details` fills in the sentence's placeholders."""

    def __init__(self, fault: AccountFault, code: str | None = None, **details: object) -> None:
        super().__init__(fault.translate(**details), code, details)
        self.fault = fault


def refuse(
    fault: AccountFault, *, person: UUID | None = None, cause: str = "", login: str = "", **private: Any
) -> None:
    """Report a refusal to the log and the activity records, not to the browser. `login` is the typed address."""
    errors.subject().person = person or errors.subject().person
    errors.report(RequestError(fault).about(cause=cause, login=login, **private))


def refused(fault: AccountFault, code: str | None = None, **facts: Any) -> FormError:
    """Call `refuse`, and return a form error. `facts` is for `refuse` and for the sentence's placeholders."""
    refuse(fault, **facts)
    return FormError(fault, code, **facts)


def duration(seconds: int) -> str:
    if seconds < 60:
        return ngettext("%(count)d second", "%(count)d seconds", seconds) % {"count": seconds}
    if seconds > 7200:
        hours = ceil(seconds / 3600)
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    minutes = ceil(seconds / 60)
    return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
