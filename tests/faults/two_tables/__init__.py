"""Migrations of oauth_bridge for tests: the real one, and one that changes two tables that requests use."""
