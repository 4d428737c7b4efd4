"""The format of date and time in Simplified Chinese: 2026年11月22日 17:05."""

DATE_FORMAT = "Y年n月j日"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "Y年n月j日 H:i"
