"""The activity log and related tables. A record must not contain a credential, a `state` or a typed login name."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy


class Step(models.TextChoices):
    """The steps of a sign-in in their order, and the sign-out."""

    AUTHORIZE = "authorize", gettext_lazy("Start")
    SIGN_IN = "sign_in", gettext_lazy("Sign-in")
    SECOND_FACTOR = "second_factor", gettext_lazy("Second factor")
    CONSENT = "consent", gettext_lazy("Consent")
    EXCHANGE = "exchange", gettext_lazy("Access")
    PROFILE = "profile", gettext_lazy("Profile")
    LOGOUT = "logout", gettext_lazy("Sign-out")


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    REFUSED = "refused"  # by the service or the person
    FAILED = "failed"  # the service had a fault, or the next step did not follow
    UNFINISHED = "unfinished"  # the person was asked for a second factor or a mailed code; a later record shows its use


class ActivityRecord(models.Model):
    """A step of a sign-in, or a sign-out: who, when, from where, and with which outcome."""

    at = models.DateTimeField()
    attempt = models.UUIDField(null=True)  # the same for all steps of one sign-in
    client_id = models.CharField(max_length=255, blank=True)
    # The person who has proved their identity, or the owner of the typed e-mail address.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    step = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    cause = models.CharField(max_length=40, blank=True)
    reference = models.CharField(max_length=8, blank=True)
    address = models.CharField(max_length=50, blank=True)
    browser = models.CharField(max_length=60, blank=True)
    login_mark = models.BinaryField(max_length=8, null=True)  # an HMAC of a typed e-mail address without an account
    detail = models.JSONField(default=dict)  # facts about the cause
    is_proven = models.BooleanField(default=False)  # the caller sent a secret, code or token of this service

    class Meta:
        # Ids ascend in time, so `at` needs no index. Several records may have the same reference.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["client_id", "-id"], name="oauth_bridge_activity_client"),
            models.Index(fields=["reference"], name="oauth_bridge_activity_ref"),
            models.Index(
                fields=["attempt"], name="oauth_bridge_activity_attempt", condition=models.Q(attempt__isnull=False)
            ),
            models.Index(
                fields=["person", "-id"], name="oauth_bridge_activity_person", condition=models.Q(person__isnull=False)
            ),
            models.Index(
                fields=["login_mark"], name="oauth_bridge_activity_login", condition=models.Q(login_mark__isnull=False)
            ),
        ]


class ActivityCount(models.Model):
    """How often a step happened in an hour, by client_id, outcome and cause. Steps without a record count too."""

    hour = models.DateTimeField()
    client_id = models.CharField(max_length=255, blank=True)
    step = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    cause = models.CharField(max_length=40, blank=True)
    number = models.BigIntegerField()

    class Meta:
        # Pages count the sign-ins and failures of a day or a month. A change of `number` writes no index.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["hour"],
                name="oauth_bridge_activity_hour",
                condition=~models.Q(outcome=Outcome.SUCCEEDED.value) | models.Q(step=Step.EXCHANGE.value),
            )
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["client_id", "hour", "step", "outcome", "cause"], name="oauth_bridge_activity_count_once"
            ),
        ]


class PurgeRun(models.Model):
    """The time of the last complete run of `manage.py purge`. The table has at most one row."""

    finished_at = models.DateTimeField()


class WriteProof(models.Model):
    """The time at which a worker last proved that the database can be written. The table has at most one row."""

    written_at = models.DateTimeField()
