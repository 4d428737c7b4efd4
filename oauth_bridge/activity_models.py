"""The tables of the activity log: one record for each refused or failed step of a sign-in, and counts of all steps.

D24. Records are written by `storage.activity` and counts by `storage.activity_counts`; `maintenance.purging` deletes
both. No row holds a credential, a `state`, or what was typed as a login name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from django.conf import settings
from django.db import models


class Step(StrEnum):
    """The steps of a sign-in, in their order, and the sign-out."""

    AUTHORIZE = "authorize"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    CONSENT = "consent"
    EXCHANGE = "exchange"
    PROFILE = "profile"
    LOGOUT = "logout"


class Outcome(StrEnum):
    """Refused: the service, or the person, said no. Failed: the service could not, or the next step never came."""

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"


class ActivityRecord(models.Model):
    """One step of a sign-in. `attempt` is that of D8: it groups the steps from the application's link to the profile.

    `client_id` and `person` are empty unless they are known; `person` is somebody who proved to be them, or whose
    address was typed. `address` is the network address, and `browser` its family and system, as in the list of
    browsers. `login_mark` is an HMAC of a well-formed address that names no account. `detail` has the facts that the
    cause names. `is_proven`: the caller proved a secret, a code or a token.
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
        # An id ascends with the time, so no index on `at` is needed. The reference is not unique: D24.
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


class ActivityBudget(models.Model):
    """How many records a group of callers has written in an hour. A fixed number of rows for each application.

    `hour` counts from 1970. The row is used again in the next hour. `storage.activity` explains the slots.
    """

    client_id = models.CharField(max_length=255, blank=True)
    slot = models.SmallIntegerField()
    hour = models.IntegerField()
    number = models.IntegerField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["client_id", "slot"], name="oauth_bridge_activity_slot"),
        ]


class ActivityCount(models.Model):
    """How often a step ended so in an hour, recorded or not. It names no person."""

    hour = models.DateTimeField()
    client_id = models.CharField(max_length=255, blank=True)
    step = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    cause = models.CharField(max_length=40, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["client_id", "hour", "step", "outcome", "cause"], name="oauth_bridge_activity_count_once"
            ),
        ]
