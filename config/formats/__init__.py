"""Formats of dates for the languages in which Django's do not fit: days before months, 24 hours, UTC."""
