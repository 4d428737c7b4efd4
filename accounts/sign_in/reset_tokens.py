"""The keys of password reset links. They work for an hour: settings.PASSWORD_RESET_TIMEOUT."""

from __future__ import annotations

from django.contrib.auth.tokens import PasswordResetTokenGenerator

from accounts.models import User


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Keys that become invalid together with the person's other credentials (accounts.sessions.credential_changes).

    To make a key takes no statement, so an address without an account takes as long as one with an account.
    """

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.credentials_version}"

    def check_token(self, user: User | None, token: str | None) -> bool:
        return super().check_token(user, token) and bool(user and user.is_active)
