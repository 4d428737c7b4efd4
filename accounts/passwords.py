"""A password validator for two rules that Django's validators lack."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from config.infrastructure.text import refuse_control_characters

PASSWORD_MAX_LENGTH = 1024


class PlainTextValidator:
    """At most 1,024 characters, because hashing more only takes longer, and no control characters."""

    def validate(self, password: str, user: object = None) -> None:
        if len(password) > PASSWORD_MAX_LENGTH:
            raise ValidationError(
                _("This password is too long. It may have %(count)d characters.") % {"count": PASSWORD_MAX_LENGTH},
                code="password_too_long",
            )
        refuse_control_characters(password)

    def get_help_text(self) -> str:
        return _("Your password can have up to %(count)d characters, spaces included.") % {"count": PASSWORD_MAX_LENGTH}
