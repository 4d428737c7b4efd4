"""Modules that accounts and oauth_bridge share: SQL, counters, client addresses. It imports neither package."""
