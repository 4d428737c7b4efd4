"""Modules that accounts and oauth_bridge share: errors, SQL, counters, client addresses. None imports these."""
