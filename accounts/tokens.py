"""Keys of mailed links."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.tokens import PasswordResetTokenGenerator

from accounts.models import User


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Reset links that end with all that was given out on behalf of a person (accounts.credentials).

    Reads nothing from the database: an address without an account takes as long.
    """

    def _make_hash_value(self, user: AbstractBaseUser, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{cast(User, user).credentials_version}"

    def check_token(self, user: AbstractBaseUser | None, token: str | None) -> bool:
        return super().check_token(user, token) and bool(user and user.is_active)
