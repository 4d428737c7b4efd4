"""Tests about the project itself: its documents, its structure, its releases."""
