"""Whose e-mail address is confirmed. The only writer of `email_verified_at` and of the library's table of addresses."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from django.db import transaction
from django.utils import timezone

from accounts.models import User


def mark_verified(user: User) -> None:
    """The address is the person's own: they showed it, or an operator vouches for it. D16."""
    with transaction.atomic():
        user.email_verified_at = timezone.now()
        user.save(update_fields=["email_verified_at"])
        align(user)


def align(user: User) -> None:
    """Make the library's table say what the person's row says: one address, primary, verified or not.

    The row is the record. It is written without the library by `createsuperuser` and by hand.
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
