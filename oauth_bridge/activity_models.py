"""The tables of the activity log: one record for each refused or failed step of a sign-in, and counts of all steps.

D24. Records are written by `storage.activity` and counts by `storage.activity_counts`; `maintenance.purging` deletes
both. No row contains a credential, a `state` or a typed login name.
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
    """The outcome. Refused: by the service or the person. Failed: a fault of the service, or a missing next step."""

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"


class ActivityRecord(models.Model):
    """One step of a sign-in. `attempt` (D8) groups the steps from the application's link to the profile.

    `client_id` and `person` are empty if unknown. `person` has proved their identity, or is the owner of the typed
    address. `address` is the network address, `browser` the family and system as in the list of browsers. `login_mark`
    is an HMAC of a well-formed address without an account. `detail` has the facts of the cause. `is_proven`: the caller
    proved a secret, a code or a token.
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
        # Ids ascend in time, so `at` needs no index. The reference is not unique: D24.
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
    """The number of records of a group of callers in an hour. Each application has a fixed number of rows.

    `hour` counts from 1970. The next hour uses the same row. `storage.activity` explains the slots.
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
    """The number of steps with this outcome and cause in an hour, recorded or not. It names no person."""

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
