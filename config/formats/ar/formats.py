"""The Arabic formats of date and time. Django has no Arabic format for a date with a time."""

DATE_FORMAT = "j F Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "j F Y، H:i"
