"""Keys of mailed links."""

from __future__ import annotations

from django.contrib.auth.tokens import PasswordResetTokenGenerator

from accounts.models import User


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Reset links that end with all that was given out on behalf of a person (accounts.credentials).

    Reads nothing from the database: an address without an account takes as long.
    """

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.credentials_version}"

    def check_token(self, user: User | None, token: str | None) -> bool:
        return super().check_token(user, token) and bool(user and user.is_active)
