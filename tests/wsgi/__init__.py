"""Variants of the service that tests serve."""
