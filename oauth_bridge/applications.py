"""Registering an application and its secret: the only writer of those rows beside the admin form. D15."""

from __future__ import annotations

from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from accounts.rows import Rows, adapted
from oauth_bridge import codes
from oauth_bridge.models import AccessToken, Application, ApplicationSecret, AuthorizationCode, Consent

APPLICATIONS = Rows(Application)

FIND = f"""
    SELECT {APPLICATIONS.columns("a")}, c.fingerprint
      FROM {Application._meta.db_table} a
      LEFT JOIN {Consent._meta.db_table} c ON c.application_id = a.id AND c.user_id = %s AND c.expires_at > %s
     WHERE a.client_id = %s
"""  # noqa: S608 - names of tables and columns only


def find(client_id: str, person_id: UUID | None = None) -> Application | None:
    """The application a request names, whatever state it is in, with what the person has agreed to. One statement."""
    if not client_id.isprintable():  # PostgreSQL takes no NUL
        return None
    with connection.cursor() as cursor:
        cursor.execute(FIND, adapted(person_id, timezone.now(), client_id))
        row = cursor.fetchone()
    if row is None:
        return None
    application = APPLICATIONS.instance(row[:-1])
    application.agreed_fingerprint = row[-1]
    return application


@transaction.atomic
def create(
    *, name: str, redirect_uris: list[str], homepage: str = "", is_trusted: bool = False
) -> tuple[Application, str]:
    """A saved application and its client secret, which is nowhere kept.

    Raises ValidationError: the name, the homepage or a callback address can't be registered.
    """
    application = Application(
        name=name, redirect_uris="\n".join(redirect_uris), homepage=homepage, is_trusted=is_trusted
    )
    application.full_clean()
    application.save()
    return application, rotate_secret(application)


@transaction.atomic
def rotate_secret(application: Application) -> str:
    """A new secret of 256 random bits; the ones before it are refused from now on."""
    secret = codes.new_credential()
    application.secrets.all().delete()
    ApplicationSecret.objects.create(application=application, digest=codes.digest_of(secret))
    return secret


def set_enabled(application: Application, is_enabled: bool) -> None:
    """Switch the application off or on; off, its codes and tokens are useless at once (D17)."""
    application.is_enabled = is_enabled
    application.save(update_fields=["is_enabled", "updated"])


@transaction.atomic
def delete(application: Application) -> None:
    """The application with everything it holds."""
    AuthorizationCode.objects.filter(application=application).delete()
    AccessToken.objects.filter(application=application).delete()
    application.delete()
