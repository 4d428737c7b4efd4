"""Explain why a code has no row: a later code of the attempt replaced the code (D8), or the code was withdrawn. D24."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from config.infrastructure.sql import as_uuid, fetch_one
from oauth_bridge.models import AuthorizationCode, WithdrawnCode
from oauth_bridge.random_values import digest_of, is_well_formed

FIND = f"""
    SELECT c.id, c.application_id, c.user_id, c.attempt
      FROM {AuthorizationCode._meta.db_table} c WHERE c.former_digest = %(digest)s
     UNION ALL
    SELECT NULL, NULL, NULL, NULL FROM {WithdrawnCode._meta.db_table} w WHERE w.digest = %(digest)s
"""  # noqa: S608 - table names only


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a code has no row. `cause` is empty for an unknown code. `successor` is the code that replaced the code."""

    cause: str = ""
    successor: AuthorizationCode | None = None


def withdraw(codes: QuerySet[AuthorizationCode]) -> None:
    """Delete the codes, and keep their digests until the codes would have expired.

    If a new code replaces one of the codes after the digests are read, the new code is also deleted, but its digest is
    not kept.
    """
    rows = list(codes.filter(expires_at__gt=timezone.now()).values_list("digest", "expires_at"))
    codes.delete()
    if rows:
        withdrawn = [WithdrawnCode(digest=digest, expires_at=expires_at) for digest, expires_at in rows]
        WithdrawnCode.objects.bulk_create(withdrawn, ignore_conflicts=True)


def explain(code: str) -> Ended:
    """Explain a code without a row. One statement; none for a malformed text."""
    if not is_well_formed(code):
        return Ended("code_misshapen")
    row = fetch_one(FIND, digest=digest_of(code))
    if row is None:
        return Ended()
    pk, application_id, person_id, attempt = row
    if pk is None:
        return Ended("code_withdrawn")
    return Ended("code_replaced", _code(pk, application_id, as_uuid(person_id), as_uuid(attempt)))


def _code(pk: int, application_id: int, person_id: UUID, attempt: UUID) -> AuthorizationCode:
    return AuthorizationCode(pk=pk, application_id=application_id, user_id=person_id, attempt=attempt)
