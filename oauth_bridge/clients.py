"""Who calls the token operation: the application, proved by its secret. Specification 5.1, 5.3; D9, D12, D15, D17."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from django.db import connection
from django.utils.crypto import constant_time_compare

from oauth_bridge import throttling
from oauth_bridge.codes import digest_of
from oauth_bridge.faults import Fault, Refused
from oauth_bridge.models import Application, ApplicationSecret

NO_DIGEST = bytes(32)

FIND = f"""
    SELECT a.id, a.client_id, a.client_type, a.is_enabled, s.digest
      FROM {Application._meta.db_table} a LEFT JOIN {ApplicationSecret._meta.db_table} s ON s.application_id = a.id
     WHERE a.client_id = %s
"""  # noqa: S608 - table names only


class Client(NamedTuple):
    """An application at the token operation: what of it decides there."""

    pk: int
    client_id: str
    client_type: str
    is_enabled: bool


def authenticate(form: dict[str, str], address: str) -> Client:
    """The client that `client_id` and `client_secret` prove, counted against its limit. One statement.

    By digest and constant-time compare; an unknown client costs what a wrong secret costs. A public client names itself
    and proves itself by its `code_verifier` (D9).
    Raises Refused: it does not exist, is switched off, or the secret is wrong; or one of the limits is reached.
    """
    client_id, secret = form["client_id"], form.get("client_secret", "")
    with connection.cursor() as cursor:
        cursor.execute(FIND, [client_id])
        rows = cursor.fetchall()
    client = Client(*rows[0][:-1]) if rows else None
    digest = digest_of(secret)
    matches = [constant_time_compare(digest, row[-1] or NO_DIGEST) for row in rows or [(NO_DIGEST,)]]
    if client is None or not client.is_enabled:
        _refuse(client_id, address)
    is_public = client.client_type == Application.CLIENT_PUBLIC
    if secret if is_public else not any(matches):
        _refuse(client_id, address)
    throttling.token(client.pk)
    return client


def _refuse(client_id: str, address: str) -> NoReturn:
    throttling.token_failure(address, client_id)
    raise Refused(Fault.CLIENT_NOT_AUTHENTICATED)
