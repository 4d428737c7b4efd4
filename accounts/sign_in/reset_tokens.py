"""Make and check the keys of password reset links. A key is valid for settings.PASSWORD_RESET_TIMEOUT, an hour."""

from __future__ import annotations

from django.contrib.auth.tokens import PasswordResetTokenGenerator

from accounts.models import User


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Makes keys that become invalid with the person's other credentials (accounts.sessions.credential_changes).

    Making a key runs no SQL statement, so the response time does not reveal whether an account exists.
    """

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.credentials_version}"

    def check_token(self, user: User | None, token: str | None) -> bool:
        return super().check_token(user, token) and bool(user and user.is_active)
