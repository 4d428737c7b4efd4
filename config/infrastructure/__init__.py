"""What accounts and oauth_bridge both stand on: statements, counters, client addresses. It imports neither."""
