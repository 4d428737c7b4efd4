"""What a redemption returns: the code's values and the token's, as rows only if somebody reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from config.infrastructure.sql import Rows, as_uuid
from oauth_bridge.models import AccessToken, AuthorizationCode
from oauth_bridge.storage.tokens import FROM_CODE, STORED

# The columns of a redeemed code that its token or its answer needs.
REDEEMED = Rows(AuthorizationCode, "id", *FROM_CODE)


@dataclass(frozen=True, slots=True)
class Redemption:
    """A redeemed code and the token that was stored for it.

    Their rows are made when they are read: most installations read none.
    """

    code_values: Sequence[Any]
    token_values: Sequence[Any]

    @property
    def code(self) -> AuthorizationCode:
        return REDEEMED.instance(self.code_values)

    @property
    def person_id(self) -> UUID:
        """The person's primary key, without making the row."""
        return as_uuid(self.code_values[REDEEMED.names.index("user_id")])

    @property
    def openid(self) -> str | None:
        """What the ID token says of the sign-in, as JSON; None for a plain OAuth 2.0 request."""
        return self.code_values[REDEEMED.names.index("openid")]  # type: ignore[no-any-return]

    @property
    def token(self) -> AccessToken:
        return STORED.instance(self.token_values)
