"""Store, show and end browser sessions, and recognize known browsers."""
