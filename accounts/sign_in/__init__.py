"""Signing in, up and out, confirmed addresses, new passwords, the proof before a sensitive change. Uses allauth."""
