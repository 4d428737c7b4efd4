"""What happens when a code is used again: its token ends, and people learn of it. Specification 3.1; D13.

`storage.code_redemption.explain` decides whether a second redemption is a replay.
"""

from __future__ import annotations

from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge import application_mails
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.storage import client_secrets, tokens


def end_token(code: AuthorizationCode, client: client_secrets.Client, age: float) -> None:
    """Revoke the token that was issued for the code, and tell the person and the application's owners.

    `age` is the time since the first redemption, in seconds. The client is the one that sent the code again.
    """
    tokens.revoke(bytes(code.token_digest or b""))
    events.write(
        Event.CODE_REPLAYED,
        client_id=client.client_id,
        person=code.user_id,
        code_row=code.pk,
        age_seconds=age,
    )
    application_mails.code_replayed(code.user_id, client.pk)
    application_mails.code_replayed_to_owners(client.pk)
