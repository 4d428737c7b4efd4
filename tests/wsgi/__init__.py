"""Variants of the service that tests serve: with a fault, with another clock."""
