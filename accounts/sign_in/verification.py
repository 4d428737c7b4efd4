"""The only writer of `email_verified_at` and of allauth's table of e-mail addresses."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from django.db import transaction
from django.utils import timezone

from accounts import audit_trail
from accounts.models import User


def mark_verified(user: User, *, is_new: bool = False) -> None:
    """Store that the person or an operator has confirmed the address. `is_new`: the person had another before. D16."""
    with transaction.atomic():
        user.email_verified_at = timezone.now()
        user.save(update_fields=["email_verified_at"])
        if is_new:
            user.change_profile()
        align(user)
        audit_trail.write("address_confirmed", audit_trail.of_person(user))


def clear_nickname_of_sign_up(user: User) -> None:
    """Clear the nickname of an unconfirmed sign-up, which a stranger may have chosen as the text of an e-mail.

    A nickname that an operator gave stays: only a sign-up stores a language before the first sign-in.
    """
    if user.email_verified_at is None and user.last_login is None and user.language:
        user.change_profile(nickname="")


def delete_unverified(user: User) -> None:
    """Delete the unconfirmed addresses: an e-mail about a change must not go to a stranger."""
    EmailAddress.objects.filter(user=user, verified=False).delete()


def align(user: User) -> None:
    """Make allauth's table agree with the person's row: one address, primary, verified or not.

    The person's row decides: `createsuperuser` and operators write the row without allauth.
    """
    verified = user.email_verified_at is not None
    rows = list(EmailAddress.objects.filter(user=user).values_list("email", "primary", "verified"))
    if rows == [(user.email, True, verified)]:
        return
    with transaction.atomic():
        EmailAddress.objects.filter(user=user).exclude(email=user.email).delete()
        EmailAddress.objects.update_or_create(
            user=user, email=user.email, defaults={"primary": True, "verified": verified}
        )
