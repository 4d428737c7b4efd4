"""Maintenance: the purge, and the end of credentials after a restore."""
