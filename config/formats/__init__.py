"""Formats of dates and times for languages whose formats in Django do not fit. Hours count from 0 to 23."""
