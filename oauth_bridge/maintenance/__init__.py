"""Maintenance: the purge, the end of credentials after a restore, and sign-out notices."""
