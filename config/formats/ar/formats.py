"""The Arabic formats of date and time. Django has no Arabic format of both together."""

DATE_FORMAT = "j F Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "j F Y، H:i"
