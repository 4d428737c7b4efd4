"""Measure the cost of each operation relative to a bare Django view: `make bench`. Linux only (/proc)."""

from tests.server import configure_django

configure_django()
