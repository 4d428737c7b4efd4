"""The Arabic format of date and time, which Django does not have."""

DATE_FORMAT = "j F Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "j F Y، H:i"
