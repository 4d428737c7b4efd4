"""The database tables of `oauth_bridge`."""

from oauth_bridge.models.activity import ActivityCount, ActivityRecord, PurgeRun, WriteProof
from oauth_bridge.models.application import Application, new_client_id
from oauth_bridge.models.credentials import (
    AccessToken,
    AuthorizationCode,
    Consent,
    IDToken,
    RefreshToken,
    WithdrawnCode,
)
from oauth_bridge.models.secrets import ApplicationSecret, SigningKey

__all__ = [
    "AccessToken",
    "ActivityCount",
    "ActivityRecord",
    "Application",
    "ApplicationSecret",
    "AuthorizationCode",
    "Consent",
    "IDToken",
    "PurgeRun",
    "RefreshToken",
    "SigningKey",
    "WithdrawnCode",
    "WriteProof",
    "new_client_id",
]
