"""Failures of whole machines of docs/high-availability.md, under load: `make drill`.

The modules that import the service's models need a configured Django. The drill itself uses no database.
"""

from tests.server import configure_django

configure_django()
