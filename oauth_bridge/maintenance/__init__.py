"""What deletes rows in bulk: the purge, and the end of credentials after a restore."""
