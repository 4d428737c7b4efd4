"""Formats of dates and times where Django's formats do not fit: the day before the month, 24 hours, UTC."""
