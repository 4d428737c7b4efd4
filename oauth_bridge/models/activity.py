"""The tables of the activity log: records of refusals, failures and sign-ins, and counts of all steps.

`activity.counts` adds the rows, and `management.purging` deletes them. No row contains a credential, a `state` or a
typed login name. Two more tables have the times of the last purge and of the last proof that a write succeeds.
"""

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
    """The outcome of a step.

    REFUSED: the service or the person refused the step. FAILED: the service had a fault, or the next step did not
    follow. UNFINISHED: the person was asked for a second factor or an e-mailed code. A later record shows its use.
    """

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"
    UNFINISHED = "unfinished"


class ActivityRecord(models.Model):
    """One step of a sign-in. `attempt` is the same for all steps of one sign-in.

    `client_id` and `person` are empty if unknown. `person` is a person who has proved their identity, or the owner of
    the typed e-mail address. `login_mark` is an HMAC of a typed e-mail address that has no account. `detail` contains
    facts about the cause. `is_proven` is true if the caller sent a secret, code or token of this service.
    """

    at = models.DateTimeField()
    attempt = models.UUIDField(null=True)
    client_id = models.CharField(max_length=255, blank=True)
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
    login_mark = models.BinaryField(max_length=8, null=True)
    detail = models.JSONField(default=dict)
    is_proven = models.BooleanField(default=False)

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
    """How often a step had the same outcome and cause in one hour, unrecorded steps included. No row names a person."""

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
