"""Receive, decode, store and serve pictures."""
