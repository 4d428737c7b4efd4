"""Authenticate an application by its client secret. Accept a public client, which has none. Specification 5.1, 5.3."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from config.infrastructure.errors import RequestError, subject
from config.infrastructure.sql import Rows, fetch_all, fetch_one
from oauth_bridge.applications import registry
from oauth_bridge.applications.registry import DELETION, FIND_DELETION
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application, ApplicationSecret

USE_NOTED_EVERY = timedelta(minutes=1)
NO_DIGEST = bytes(32)

APPLICATIONS = Application._meta.db_table
SECRETS = ApplicationSecret._meta.db_table

# Always read both tables and return a row, so that an unknown client takes as long as a wrong secret. The row of an
# unknown client is that of a switched-off application without a primary key.
FIND_SECRETS = f"""
    SELECT a.id, coalesce(a.client_id, %(client_id)s), coalesce(a.client_type = '{Application.CLIENT_PUBLIC}', false),
           coalesce(a.is_enabled, false), coalesce(a.id_token_alg, ''),
           s.id, coalesce(s.digest, %(no_digest)s),
           s.is_revoked OR s.expires_at <= %(now)s, s.last_used_at > %(noted_before)s
      FROM (SELECT 1) AS always
      LEFT JOIN {APPLICATIONS} a ON a.client_id = %(client_id)s
      LEFT JOIN {SECRETS} s ON s.application_id = coalesce(a.id, 0)
"""  # noqa: S608 - table names only

# Every failed authentication runs this statement, so that all failures take equally long.
FOUND = Rows(ApplicationSecret, "id", "application_id", "expires_at", "is_revoked")
FIND_BY_DIGEST = f"""
    SELECT {FOUND.columns("s")}, {DELETION.columns("d")}
      FROM (SELECT 1) AS always
      LEFT JOIN {SECRETS} s ON s.digest = %(digest)s
      LEFT JOIN ({FIND_DELETION}) d ON 1 = 1
"""  # noqa: S608


class Client(NamedTuple):
    pk: int
    client_id: str
    is_public: bool
    is_enabled: bool
    id_token_alg: str


class Secret(NamedTuple):
    """The columns of a secret in a row of FIND_SECRETS."""

    pk: int  # None: the application has no secret
    digest: bytes
    is_expired: bool | None  # true also after a revocation
    is_noted: bool | None  # a recent use is stored


def authenticate(form: dict[str, str], public_field: str | None = "code_verifier") -> Client:
    """Authenticate the client by its secret. A public client must send the form field `public_field` and no secret.

    If `public_field` is None, refuse public clients. Raises RequestError: the client is disabled or not authenticated.
    """
    secret = form.get("client_secret", "")
    now = timezone.now()
    noted_before = now - USE_NOTED_EVERY
    rows = fetch_all(FIND_SECRETS, now=now, noted_before=noted_before, client_id=form["client_id"], no_digest=NO_DIGEST)
    secrets = [Secret(*row[5:]) for row in rows]
    digest = digest_of(secret)
    matching = [each for each in secrets if constant_time_compare(digest, each.digest)]
    client = Client(*rows[0][:5])
    if client.is_public:
        is_proved = not secret and public_field in form
    else:
        is_proved = any(not each.is_expired for each in matching)
    if not client.is_enabled or not is_proved:
        raise _refusal(client, form, secrets, matching, now)
    for each in matching:
        if not each.is_noted:
            _note_use(each.pk, now)
    return client


def _refusal(
    client: Client, form: dict[str, str], secrets: list[Secret], matching: list[Secret], now: datetime
) -> RequestError:
    """Return the error for a client that is not authenticated. All failures run the same SQL and take equally long.

    Only a caller who sends a secret of the application learns from the message that the application exists.
    """
    secret = form.get("client_secret", "")
    # Only an unknown client_id can be the client_id of a deleted application. For a known application the statement
    # searches for an empty client_id, which takes the same time.
    row = fetch_one(FIND_BY_DIGEST, digest=digest_of(secret), deleted_client_id="" if client.pk else form["client_id"])
    pk, secret_of = row[:2]
    # An instance is made only for a matching secret: for another application's secret, the time would reveal that this
    # secret exists.
    own = FOUND.instance(row[: len(FOUND)]) if matching and pk is not None else None
    deletion = row[len(FOUND) :]
    fault = OAuthFault.CLIENT_NOT_AUTHENTICATED if secret else OAuthFault.CLIENT_SECRET_MISSING
    if matching and not client.is_public:
        if not matching[0].is_expired:
            fault = OAuthFault.CLIENT_SWITCHED_OFF
        elif client.is_enabled:
            fault = OAuthFault.CLIENT_SECRET_EXPIRED
    error = RequestError(fault)
    if any(deletion):
        registry.add_deletion(error, deletion)
    # Also for an unknown client, whose failure must take as long.
    cause = _cause(client, form, secrets, own, is_of_another=pk is not None)
    if client.pk:
        error.about(cause=cause)
    else:
        error.about(cause="client_unknown", sent_client_id=form["client_id"])
    subject().client_id, subject().is_proven = client.client_id if client.pk else "", bool(matching)
    if pk is not None:
        error.about(secret_row=pk, secret_of=secret_of)
    if own and own.expires_at:
        error.about(expired_seconds=round((now - own.expires_at).total_seconds(), 1))
    return error


def _cause(
    client: Client,
    form: dict[str, str],
    secrets: list[Secret],
    own: ApplicationSecret | None,
    *,
    is_of_another: bool,
) -> str:
    has_secret = bool(form.get("client_secret"))
    has_working = any(each.pk and not each.is_expired for each in secrets)
    if client.pk and not client.is_enabled:
        return "client_disabled"
    if client.is_public:
        return "public_with_secret" if has_secret else "public_without_verifier"
    if not has_secret:
        return "verifier_instead_of_secret" if "code_verifier" in form else "secret_missing"
    if own:
        return "secret_revoked" if own.is_revoked else "secret_expired"
    if is_of_another:
        return "secret_of_another"
    return "secret_wrong" if has_working else "secret_none_left"


@transaction.atomic
def _note_use(secret_id: int, now: datetime) -> None:
    """Store the time of a secret's use, at most once in USE_NOTED_EVERY. Do nothing if the row is locked."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_NOTED_EVERY)
    # `skip_locked`: an exchange must not wait. A later use stores its time.
    free = ApplicationSecret.objects.filter(unnoted, pk=secret_id).select_for_update(skip_locked=True, no_key=True)
    ApplicationSecret.objects.filter(pk__in=free.order_by().values("pk")).update(last_used_at=now)
