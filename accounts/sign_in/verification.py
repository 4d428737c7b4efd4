"""Write `email_verified_at`, and make allauth's table of e-mail addresses agree with the person's row."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from django.db import transaction
from django.utils import timezone

from accounts import audit_trail
from accounts.mail import composing
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials


def mark_verified(user: User, *, is_new: bool = False) -> None:
    """Mark `user.email` as confirmed if the account still has it. `is_new`: this address replaced another address."""
    now = timezone.now()
    with transaction.atomic():
        same = User.objects.filter(pk=user.pk, email=user.email)
        if not same.update(email_verified_at=now, invited_at=None):
            return
        user.email_verified_at, user.invited_at = now, None
        if is_new:
            user.change_profile()
        align(user)
        audit_trail.write("address_confirmed", audit_trail.of_person(user))


@transaction.atomic
def correct(user: User, email: str) -> None:
    """Replace the person's address at an administrator's request. End the credentials, and notify the old address."""
    composing.address_corrected(user)
    user.change_profile(email=email, email_verified_at=None)
    align(user)
    end_credentials(user)
    audit_trail.write("address_corrected", audit_trail.of_person(user))


def clear_nickname_of_sign_up(user: User) -> None:
    """Clear the nickname of an unconfirmed sign-up: a stranger may have chosen this text to appear in an e-mail."""
    # An account that an operator made has no language until the first sign-in.
    if user.email_verified_at is None and user.last_login is None and user.language:
        user.change_profile(nickname="")


def delete_unverified(user: User) -> None:
    """Delete the person's unconfirmed addresses, so that no e-mail about a change goes to a stranger."""
    EmailAddress.objects.filter(user=user, verified=False).delete()


def align(user: User) -> None:
    """Make allauth's table agree with the person's row, because operators write only the row."""
    verified = user.email_verified_at is not None
    rows = list(EmailAddress.objects.filter(user=user).values_list("email", "primary", "verified"))
    if rows == [(user.email, True, verified)]:
        return
    with transaction.atomic():
        EmailAddress.objects.filter(user=user).exclude(email=user.email).delete()
        EmailAddress.objects.update_or_create(
            user=user, email=user.email, defaults={"primary": True, "verified": verified}
        )
