"""Times that commands and workers leave for `check-deployment`, metrics and readiness."""

from __future__ import annotations

from django.db import models


class PurgeRun(models.Model):
    """The time of the last complete run of `manage.py purge`. The table has at most one row."""

    finished_at = models.DateTimeField()


class WriteProof(models.Model):
    """The time at which a worker last proved that the database can be written. The table has at most one row."""

    written_at = models.DateTimeField()
