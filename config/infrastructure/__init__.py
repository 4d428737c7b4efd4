"""Shared by accounts and oauth_bridge, and importing neither: statements, limits, caches, network addresses."""
